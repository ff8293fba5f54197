package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A new database knows nothing of the addresses that containers have. Of those
// on its own host the engine tells, and nothing is chosen before it has
// (awaitList). Where several databases were lost together, as all of a cluster,
// what is this peer's now may be in use on another host, of which only the
// engine there can tell: so nothing is chosen before the other peers that can be
// seen have taken in what their engines list, either. They say in Hello and Welcome
// how far they are. It is no more than that: a host that cannot be seen
// meanwhile, and whose database was lost as well, is found out about too late;
// and one that does not get ahead is waited for no longer than unsureTime.

const (
	// unsureTime is how long others are waited for at most.
	unsureTime = 2 * time.Minute
	// maxUnanswered is how often one is asked before it counts as away, whatever
	// the carrier says.
	maxUnanswered = int(lostAfter / tendEvery)
	// replayTime is for how long after a start an engine that does not answer may
	// be one that has just started, and will list what it has.
	replayTime = time.Minute
)

// before says whether this host had networks when its new database took in the
// engine's first list: then databases were lost, else nothing speaks for that here.
type before byte

const (
	beforeUnknown before = iota
	beforeNone
	beforeSome
)

// learnBefore notes that. What is made since, and listed later, says nothing.
func (m *Machine) learnBefore() {
	switch {
	case m.before != beforeUnknown:
	case len(m.listed) > 0:
		m.before = beforeSome
	default:
		m.before = beforeNone
	}
}

// awaitListAnew makes this peer wait for the engine's list once more: it has
// taken over space in which containers of this host may live. For this list it
// waits however long the engine is silent.
func (m *Machine) awaitListAnew() {
	m.unlisted, m.inherited = !m.lacks(ruleList), true
	for _, p := range m.pools {
		p.surveyed = false
	}
	m.saveUnlisted()
}

// awaitList makes a call wait that chooses an address, as long as a new
// database does not know which are in use.
func (m *Machine) awaitList() error {
	if comes := m.sighted() || m.inherited && m.cfg.AwaitInventory; !m.unlisted || !comes {
		return nil
	}
	return &waitError{failf(ErrNotReady, "ringlet on %s waits for the engine's list of the addresses in use: try again in a moment", m.cfg.Name)}
}

// awaitNetworkList makes a call wait that would remove a pool, as long as this peer does
// not know which networks its host has.
func (m *Machine) awaitNetworkList() error {
	if m.knowsNetworks() {
		return nil
	}
	return waitFor(failf(ErrNotReady, "ringlet on %s waits for the engine's list of its networks: try again in a moment, and see ringlet status if it fails again", m.cfg.Name))
}

// listingHere is how far this peer has come with what its own engine has, as
// others are told.
func (m *Machine) listingHere() wire.Listing {
	comes := m.cfg.AwaitInventory && (!m.blind || m.inherited || m.now.Sub(m.startedAt) < replayTime)
	switch {
	case m.takesIn():
		return wire.Untaken
	case !m.unlisted || !comes:
		return wire.Listed
	case m.inventory.isZero():
		return wire.Unlisted
	case len(m.listed) == 0:
		return wire.Listed // there is nothing
	}
	return wire.Untaken
}

// stillOthers reports whether an address that this host keeps back, or has itself,
// is another peer's for now, or may be in the next slot: as long as err has this
// one wait, that one may hand it out, and this one as soon as it comes.
func (m *Machine) stillOthers(p *pool, o addr.Offset, err error) bool {
	t, _ := p.Ring.At(o)
	return waits(err) && (t.Owner == ring.Free || t.Owner != m.self && m.live(t.Owner))
}

// takesIn reports whether this peer, with a new database, has yet to get such an
// address, for unsureTime at most.
func (m *Machine) takesIn() bool {
	if !m.unsure || m.now.Sub(m.unsureFrom()) >= unsureTime {
		return false
	}
	for _, p := range m.pools {
		if p.untaken {
			return true
		}
	}
	return m.untaken
}

// unsureFrom returns since when this peer knows all that it can know by itself: it
// has started, is in its cluster, and has taken in its list.
func (m *Machine) unsureFrom() time.Time {
	from := m.startedAt
	for _, at := range []time.Time{m.joinedAt, m.listedAt} {
		if at.After(from) {
			from = at
		}
	}
	return from
}

// awaitLists makes a call wait that chooses an address, as long as a new
// database does not know which are in use, here or on other hosts.
func (m *Machine) awaitLists() error {
	if !m.unlisted && !m.unsure {
		return nil
	}
	if err := m.awaitList(); err != nil {
		return err
	}
	if m.inTime() && m.waitedAt.Equal(m.now) {
		return &waitError{} // many wait
	}
	if m.meetUnlisted(); !m.awaitsOthers() {
		return nil
	}
	if m.waitedAt = m.now; m.inTime() {
		return &waitError{}
	}
	if m.takesIn() {
		return waitFor(failf(ErrNotReady, "ringlet on %s has a new database and does not own all reserved addresses of its networks yet: try again in a moment", m.cfg.Name))
	}
	if peers := m.saidUnlisted(); len(peers) > 0 {
		return waitFor(failf(ErrNotReady, "ringlet on %s has a new database, like %s, whose containers may have addresses that the cluster does not know yet: try again in a moment, and see ringlet status if it fails again", m.cfg.Name, m.names(peers)))
	}
	return waitFor(failf(ErrNotReady, "ringlet on %s has a new database and is still looking for the other hosts: try again in a moment", m.cfg.Name))
}

// awaitNetworks makes a call wait that would make a pool for a network, as long as
// others may have networks that it overlaps. What the engine asks for before it has
// listed anything may be a network that there is, whose replay must not wait.
func (m *Machine) awaitNetworks(cidr netip.Prefix) error {
	if m.state.PoolOf(cidr) != nil || m.inventory.isZero() {
		return nil
	}
	return m.awaitLists()
}

// awaitsOthers reports whether this peer, with a new database, chooses no address for
// now though its own list is taken in.
func (m *Machine) awaitsOthers() bool {
	switch {
	case !m.unsure:
		return false
	case m.takesIn():
		// What this host's networks keep back may have been given to it just now: the
		// list that follows has it reserved.
		return true
	case m.before == beforeSome && m.now.Sub(m.startedAt) < reachTime && len(m.known()) > 0:
		return true // who was there before this start may not have been noticed yet
	}
	return len(m.unlistedPeers()) > 0
}

// missesOthers reports whether a peer that this one waited for has answered nothing
// for long, and may yet.
func (m *Machine) missesOthers() bool {
	return slices.ContainsFunc(m.known(), func(id peer.ID) bool {
		c := m.contacts[id]
		return c != nil && m.live(id) && c.unanswered > maxUnanswered && c.listing != wire.Listed
	})
}

// meetUnlisted asks those that this peer waits for how far they have come, and
// has it choose addresses for good once there are none.
func (m *Machine) meetUnlisted() {
	if !m.unsure {
		return
	}
	peers := m.unlistedPeers()
	// As long as there is nothing to choose from, its cluster may give way to
	// another one, and the less is heard of it the better.
	idle := m.alone() && len(m.state.Pools) == 0 && m.current == nil
	if since := m.now.Sub(m.metUnlisted); len(peers) > 0 && !idle && (since < 0 || since >= tendEvery) {
		m.metUnlisted = m.now
		for _, id := range peers {
			m.contacts[id].unanswered++
			m.greetPeer(id)
		}
	}
	if m.awaitList() == nil && (!m.awaitsOthers() && !m.missesOthers() || m.now.Sub(m.unsureFrom()) >= unsureTime) {
		m.unsure, m.changed = false, true
		m.saveUnlisted()
	}
}

// unlistedPeers returns the other peers of which this one waits to hear that
// they have taken in what their engines list. One whose engine has listed nothing
// is waited for only where this host, or another one, had networks that its new
// database did not know.
func (m *Machine) unlistedPeers() []peer.ID {
	return slices.DeleteFunc(m.known(), func(id peer.ID) bool {
		c := m.contacts[id]
		switch {
		case c == nil || !m.live(id) || c.unanswered > maxUnanswered:
			return true
		case c.met.IsZero():
			return false
		case c.listing == wire.Unlisted:
			return m.before != beforeSome && !m.bereaved
		}
		return c.listing == wire.Listed
	})
}

// saidUnlisted returns those of them who have said that they have not.
func (m *Machine) saidUnlisted() []peer.ID {
	return slices.DeleteFunc(m.unlistedPeers(), func(id peer.ID) bool { return m.contacts[id].met.IsZero() })
}
