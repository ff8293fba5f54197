package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// awaitListAnew makes this peer wait for the engine's list once more: it has
// taken over space in which containers of this host may live. For this list it
// waits however long the engine is silent.
func (m *Machine) awaitListAnew() {
	m.pools.AwaitList()
	m.members.NewDB.Inherit()
}

// awaitList makes a call wait that chooses an address, as long as a new
// database does not know which are in use.
func (m *Machine) awaitList() error {
	if !m.members.NewDB.AwaitsOwn() {
		return nil
	}
	return waitFor(failf(ErrNotReady, "ringlet on %s waits for the engine's list of the addresses in use: try again in a moment", m.cfg.Name))
}

// awaitNetworkList makes a call wait that would remove a pool, as long as this peer does
// not know which networks its host has.
func (m *Machine) awaitNetworkList() error {
	if m.engine.KnowsNetworks() {
		return nil
	}
	return waitFor(failf(ErrNotReady, "ringlet on %s waits for the engine's list of its networks: try again in a moment, and see ringlet status if it fails again", m.cfg.Name))
}

// stillOthers reports whether an address that this host keeps back, or has itself,
// is another peer's for now, or may be in the next slot: as long as err has this
// one wait, that one may hand it out, and this one as soon as it comes.
func (m *Machine) stillOthers(p *pool.Pool, o addr.Offset, err error) bool {
	t, _ := p.Ring.At(o)
	return sentence.Waits(err) && (t.Owner == ring.Free || t.Owner != m.members.Self() && m.members.View().Live(t.Owner))
}

// hasUntaken reports whether this host keeps back, or has itself, what is another peer's, or was when last looked at.
func (m *Machine) hasUntaken() bool {
	return m.pools.HasUntaken() || m.survey.Untaken
}

// awaitLists makes a call wait that chooses an address, as long as a new
// database does not know which are in use, here or on other hosts.
func (m *Machine) awaitLists() error {
	if !m.members.NewDB.IsUnlisted() && !m.members.NewDB.IsUnsure() {
		return nil
	}
	if err := m.awaitList(); err != nil {
		return err
	}
	if !m.calls.waitedAt.Equal(m.now) { // many wait
		if m.meetUnlisted(false); !m.members.NewDB.AwaitsOthers(m.members.View()) {
			return nil
		}
		m.calls.waitedAt = m.now
	}
	return sentence.WaitThen(m.noLists)
}

// noLists says why a new database does not know yet which addresses are in use on other hosts.
func (m *Machine) noLists() error {
	if m.members.NewDB.TakesIn(m.now) {
		return failf(ErrNotReady, "ringlet on %s has a new database and does not own all reserved addresses of its networks yet: try again in a moment", m.cfg.Name)
	}
	if peers := m.members.NewDB.Said(m.members.View()); len(peers) > 0 {
		return failf(ErrNotReady, "ringlet on %s has a new database, like %s, whose containers may have addresses that the cluster does not know yet: try again in a moment, and see ringlet status if it fails again", m.cfg.Name, sentence.List(m.members.View().NamesOf(peers)))
	}
	return failf(ErrNotReady, "ringlet on %s has a new database and is still looking for the other hosts: try again in a moment", m.cfg.Name)
}

// awaitNetworks makes a call wait that would make a pool for a network, as long as
// others may have networks that it overlaps. What the engine asks for before it has
// listed anything may be a network that there is, whose replay must not wait.
func (m *Machine) awaitNetworks(cidr netip.Prefix) error {
	if m.state.PoolOf(cidr) != nil || m.engine.Complete().IsZero() {
		return nil
	}
	return m.awaitLists()
}

// meetUnlisted asks those that this peer waits for how far they have come, and has it choose addresses for good once there are
// none.
func (m *Machine) meetUnlisted(idle bool) {
	for _, id := range m.members.NewDB.Ask(m.members.View(), idle) {
		m.members.Greet(id)
	}
	m.calls.changed = m.members.NewDB.EndWait(m.members.View()) || m.calls.changed
}
