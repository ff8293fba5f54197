package newdb

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Listing is how far this peer has come with what its own engine has, as others are told.
func (d *Database) Listing() wire.Listing {
	now := d.out.Now()
	comes := d.engine.Lists() && (!d.engine.Silent() || d.inherited || now.Sub(d.engine.SureSince(d.me.At())) < replayTime)
	switch {
	case d.TakesIn(now):
		return wire.Untaken
	case !d.unlisted || !comes:
		return wire.Listed
	case d.engine.Complete().IsZero():
		return wire.Unlisted
	case len(d.engine.Subnets()) == 0:
		return wire.Listed // there is nothing
	}
	return wire.Untaken
}

// Hear notes that a peer has sent something.
func (d *Database) Hear(id peer.ID) { d.theirs[id] = theirs{listing: d.theirs[id].listing} }

// TakeListing takes in how far another peer has come, as it says.
func (d *Database) TakeListing(id peer.ID, l wire.Listing) {
	d.theirs[id] = theirs{listing: l}
	d.bereaved = d.bereaved || l == wire.Untaken
}

// AwaitsOthers reports whether this peer chooses no address for now though its own list is taken in.
func (d *Database) AwaitsOthers(v cluster.View) bool {
	switch {
	case !d.unsure:
		return false
	case d.TakesIn(v.Now):
		// What this host's networks keep back may have been given to it just now: the list that follows has it reserved.
		return true
	case d.before == beforeSome && !v.Lasted(d.me.At(), cluster.ReachTime) && len(v.Known()) > 0:
		return true // who was there before this start may not have been noticed yet
	}
	return len(d.missing(v)) > 0
}

// Ask returns the peers that are to be greeted, so that they say how far they have come. idle says that this peer is alone and
// has nothing to choose from.
func (d *Database) Ask(v cluster.View, idle bool) []peer.ID {
	if !d.unsure {
		return nil
	}
	peers := d.missing(v)
	// As long as there is nothing to choose from, its cluster may give way to another one, and the less is heard of it the
	// better.
	if since := v.Now.Sub(d.asked); len(peers) == 0 || idle || since >= 0 && since < d.cfg.AskAt {
		return nil
	}
	d.asked = v.Now
	for _, id := range peers {
		has := d.theirs[id]
		has.unanswered++
		d.theirs[id] = has
	}
	return peers
}

// EndWait has the peer choose addresses for good once nobody is missing, or it has waited long enough. It reports whether
// that is news.
func (d *Database) EndWait(v cluster.View) bool {
	over := v.Now.Sub(d.since()) >= patience
	if !d.unsure || d.AwaitsOwn() || !over && (d.AwaitsOthers(v) || d.isUnanswered(v)) {
		return false
	}
	d.unsure = false
	d.save()
	return true
}

// isUnanswered reports whether a peer that this one waited for has answered nothing for long, and may yet.
func (d *Database) isUnanswered(v cluster.View) bool {
	return slices.ContainsFunc(v.Known(), func(id peer.ID) bool {
		has := d.theirs[id]
		return v.Live(id) && has.unanswered > maxUnanswered && has.listing != wire.Listed
	})
}

// missing returns the peers of which this one waits to hear that they have taken in what their engines list. One whose engine
// has listed nothing is waited for only where this host, or another one, had networks that its new database did not know.
func (d *Database) missing(v cluster.View) []peer.ID {
	return slices.DeleteFunc(v.Known(), func(id peer.ID) bool {
		has := d.theirs[id]
		switch {
		case !v.Live(id) || has.unanswered > maxUnanswered:
			return true
		case v.Of(id).Met.IsZero():
			return false
		case has.listing == wire.Unlisted:
			return d.before != beforeSome && !d.bereaved
		}
		return has.listing == wire.Listed
	})
}

// Said returns those of them who have said that they have not.
func (d *Database) Said(v cluster.View) []peer.ID {
	return slices.DeleteFunc(d.missing(v), func(id peer.ID) bool { return v.Of(id).Met.IsZero() })
}
