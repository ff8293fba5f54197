package cluster

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
)

// ReachTime is for how long a peer counts as reachable after a frame of it came, if the carrier has not said otherwise
// since.
const ReachTime = 5 * time.Second

// View is the cluster as a peer sees it at one moment. It changes nothing, and is valid until the next step.
type View struct {
	*Contacts
	Self  peer.ID
	Name  peer.Name // of this peer
	State *chronicle.State
	Now   time.Time
	// Undisturbed is since when this peer has run, and nobody has set its clock, or frozen it.
	Undisturbed time.Time
}

// since returns since when something lasts that was noted at a time: this peer vouches for no time before it was last
// disturbed.
func (v View) since(at time.Time) time.Time {
	if at.Before(v.Undisturbed) || at.After(v.Now) {
		return v.Undisturbed
	}
	return at
}

// Lasted reports whether something that was noted at a time lasts for so long, as far as this peer can vouch (R66).
func (v View) Lasted(at time.Time, d time.Duration) bool { return v.Now.Sub(v.since(at)) >= d }

// HasListened reports whether this peer has run for so long, and was not disturbed.
func (v View) HasListened(d time.Duration) bool { return v.Lasted(v.Undisturbed, d) }

// Fresh reports whether what was heard or answered at a time still counts, as it does for so long (R67). The zero time is
// never.
func (v View) Fresh(at time.Time, d time.Duration) bool {
	undisturbed := !at.Before(v.Undisturbed) && !at.After(v.Now) || v.rules.Has(rule.Stale)
	return !at.IsZero() && undisturbed && v.Now.Sub(at) < d
}

// Live reports whether a peer of the cluster can probably be reached.
func (v View) Live(id peer.ID) bool {
	if c := v.of[id]; c != nil && v.State.Slot > 0 && c.Cluster != ([16]byte{}) && c.Cluster != v.State.Cluster {
		return false // it lives, and counts in another one
	}
	return v.Present(id)
}

// Present reports whether a peer can probably be reached, whatever cluster it is in.
func (v View) Present(id peer.ID) bool {
	if id == v.Self {
		return true
	}
	c := v.of[id]
	return c != nil && (c.alive || v.Fresh(c.Heard, ReachTime) && c.Heard.After(c.Since))
}

// Away returns those of the peers that cannot be reached.
func (v View) Away(peers []peer.ID) []peer.ID { return slices.DeleteFunc(slices.Clone(peers), v.Live) }

// SilentSince returns since when a peer has not been heard from, as far as this one can vouch.
func (v View) SilentSince(id peer.ID) time.Time {
	since := v.Undisturbed
	if c := v.of[id]; c != nil {
		for _, at := range []time.Time{c.Heard, c.Since, c.admitted} {
			if at = v.since(at); at.After(since) {
				since = at
			}
		}
	}
	return since
}

// HeardSince reports whether a frame of a peer came at that time or later.
func (v View) HeardSince(id peer.ID, at time.Time) bool {
	c := v.of[id]
	return c != nil && !c.Heard.Before(at) && !c.Heard.Before(v.Undisturbed) && !c.Heard.After(v.Now) && c.Cluster == v.State.Cluster
}

// LostFor reports whether a peer cannot be reached, and has been silent for so long.
func (v View) LostFor(id peer.ID, d time.Duration) bool {
	return id != v.Self && !v.Live(id) && v.Lasted(v.SilentSince(id), d)
}

// LivedBeside reports whether this peer, in this start or an earlier one, has heard from another one. Then that is no
// former self, which is silent since before this peer existed (R27). It is a host of which the firmware or the system
// says the same, such as a clone with the same name: it may be cut off, and its containers live.
func (v View) LivedBeside(id peer.ID) bool {
	c := v.of[id]
	return c != nil && c.Start.Boot != 0 && !v.rules.Has(rule.Neighbour)
}

// Foreign returns the other clusters that were met lately and of which there still is a peer, in order. A peer that has
// joined this cluster since may have sent something late before.
func (v View) Foreign() (out [][16]byte) {
	inhabited := map[[16]byte]bool{}
	for _, c := range v.of {
		inhabited[c.Cluster] = true
	}
	for cluster, met := range v.foreign {
		if cluster != v.State.Cluster && v.Now.Sub(met.last) <= foreignTime && inhabited[cluster] {
			out = append(out, cluster)
		}
	}
	slices.SortFunc(out, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// SeesCluster reports whether a peer that can be reached is in a cluster.
func (v View) SeesCluster() bool {
	for id, c := range v.of {
		if c.Cluster != ([16]byte{}) && v.Present(id) {
			return true
		}
	}
	return false
}

// MetAll reports whether other peers can be reached, and each of these has said who it is.
func (v View) MetAll() bool {
	some := false
	for id, c := range v.of {
		if v.Present(id) {
			if c.Met.IsZero() {
				return false
			}
			some = true
		}
	}
	return some
}

// Reached returns how many other peers have been heard from since this one started.
func (v View) Reached() int {
	n := 0
	for _, c := range v.of {
		if !c.Heard.IsZero() {
			n++
		}
	}
	return n
}

// Behind reports whether a peer that can be reached knows slots that this one does not. If the only such peer is lost,
// the others decide the slot again, as they have accepted it, and may need the vote of this peer for that.
func (v View) Behind() bool {
	for id, c := range v.of {
		if c.Slot > v.State.Slot && c.Cluster == v.State.Cluster && v.Live(id) {
			return true
		}
	}
	return false
}

// Known returns all other peers that this peer knows of, in order.
func (v View) Known() []peer.ID {
	out := v.Others()
	for id := range v.of {
		if id != v.Self && v.State.Member(id) == nil {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, peer.ID.Compare)
	return out
}

// Others returns the peers of the roster but this one, in the order of the roster.
func (v View) Others() []peer.ID {
	out := make([]peer.ID, 0, len(v.State.Roster))
	for _, member := range v.State.Roster {
		if member.ID != v.Self {
			out = append(out, member.ID)
		}
	}
	return out
}

// Alone reports whether this peer is the whole roster.
func (v View) Alone() bool { return len(v.State.Roster) == 1 && v.State.Roster[0].ID == v.Self }

// Older reports whether a peer is known not to speak the level that the cluster uses.
func (v View) Older(id peer.ID) bool {
	c := v.of[id]
	return c != nil && c.Spoken > 0 && c.Spoken < v.State.Level
}

// LiveVoters returns the voters that can probably be reached and understand what is to be decided, in order.
func (v View) LiveVoters() []peer.ID {
	return slices.DeleteFunc(v.State.Voters(), func(id peer.ID) bool { return !v.Live(id) || v.Older(id) })
}

// Leads reports whether this peer is the lowest live voter, which begins what one peer begins for all.
func (v View) Leads() bool {
	live := v.LiveVoters()
	return len(live) > 0 && live[0] == v.Self
}

// Majority reports whether the peers have a majority of all votes (R42).
func (v View) Majority(peers []peer.ID) bool {
	e, err := paxos.NewElectorate(v.State.Voters())
	return err == nil && e.Majority(peers)
}

// CutOff reports whether no majority of the voters can be reached.
func (v View) CutOff() bool { return !v.Majority(v.LiveVoters()) }

// HasVeto reports whether nothing can be decided without this peer.
func (v View) HasVeto() bool {
	return v.State.IsVoter(v.Self) && !v.Majority(slices.DeleteFunc(v.State.Voters(), func(id peer.ID) bool { return id == v.Self }))
}

// KeepsMajority reports whether the peers that can be reached have a majority of the votes that are left without one.
func (v View) KeepsMajority(without peer.ID) bool {
	return v.wouldDecide(slices.DeleteFunc(slices.Clone(v.State.Roster), func(m chronicle.Member) bool { return m.ID == without }))
}

// KeepsMajorityIn reports whether the peers that can be reached have a majority of the votes if this peer is in a zone (R75).
func (v View) KeepsMajorityIn(zone peer.Zone) bool {
	roster := slices.Clone(v.State.Roster)
	for i := range roster {
		if roster[i].ID == v.Self {
			roster[i].Zone = zone
		}
	}
	return v.wouldDecide(roster)
}

// Zones returns in how many zones the peers of the roster are. Those that have named none are in one.
func (v View) Zones() int {
	zones := map[peer.Zone]bool{}
	for _, member := range v.State.Roster {
		zones[member.Zone] = true
	}
	return len(zones)
}

// RulingZone returns the zone whose peers have a majority of the votes, how many these are, and of how many; zero votes if
// no zone has.
func (v View) RulingZone() (zone peer.Zone, votes, total int) {
	e, err := paxos.NewElectorate(v.State.Voters())
	if err != nil {
		return "", 0, 0
	}
	of := map[peer.Zone]int{}
	for _, id := range e.Voters() {
		of[v.State.ZoneOf(id)] += e.Votes(id)
	}
	for zone, votes = range of {
		if 2*votes > e.Total() { // just one zone can have that
			return zone, votes, e.Total()
		}
	}
	return "", 0, 0
}

// wouldDecide reports whether the peers that can be reached would have a majority of the votes if that were the roster.
func (v View) wouldDecide(roster []chronicle.Member) bool {
	voters := chronicle.VotersOf(roster)
	e, err := paxos.NewElectorate(voters)
	return err == nil && e.Majority(slices.DeleteFunc(voters, func(id peer.ID) bool { return !v.Live(id) }))
}

// NameOf names a peer for people.
func (v View) NameOf(id peer.ID) string { return id.Called(v.GoesBy(id)) }

// GoesBy returns the name by which a peer goes now, or with which it was admitted if it has not said since; empty if it has told none.
func (v View) GoesBy(id peer.ID) peer.Name {
	if id == v.Self {
		return v.Name
	}
	if c := v.of[id]; c != nil && c.Name != "" {
		return c.Name
	}
	if member := v.State.Member(id); member != nil {
		return member.Name
	}
	if gone := v.State.Gone(id); gone != nil {
		return gone.Name
	}
	return ""
}

// NamesOf returns the names of peers.
func (v View) NamesOf(peers []peer.ID) []string {
	names := make([]string, len(peers))
	for i, id := range peers {
		names[i] = v.NameOf(id)
	}
	return names
}
