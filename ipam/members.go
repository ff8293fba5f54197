package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// evict takes a lost peer out of the roster, for an operator.
func (m *Machine) evict(q *EvictRequest) error {
	if err := m.ready(); err != nil {
		return err
	}
	id, err := m.peerMeant(q.Peer, departure.InRoster)
	switch {
	case err != nil:
		return err
	case m.state.Gone(id) != nil:
		return nil // it is evicted
	}
	// What is under way stays wanted.
	if waits, err := departure.MayEvict(m.members.View(), id, m.waitsForDecision()); err != nil {
		if waits {
			return waitFor(err)
		}
		return err
	}
	_, err = m.propose(chronicle.Evict{Peer: id})
	return m.staysWanted(err, "ringlet peers")
}

// forget gives up the space of an evicted peer, for an operator, once all
// peers that can be reached have said that they do not hear from it, and have no
// containers in its space.
func (m *Machine) forget(q *ForgetRequest) (Forgetting, error) {
	if err := m.ready(); err != nil {
		return Forgetting{}, err
	}
	id, err := m.peerMeant(q.Peer, departure.Evicted)
	if err != nil {
		return Forgetting{}, err
	}
	gone := m.state.Gone(id)
	switch {
	case gone == nil:
		return Forgetting{}, failf(ErrBadRequest, "%s is in the cluster: if the host is gone for good, evict it first with ringlet evict %s", m.members.View().NameOf(id), sentence.Word(q.Peer))
	case gone.Forgotten:
		if c := m.calls.current; c != nil && c.frees.ID == gone.ID.String() {
			return c.frees, nil // this call had it forgotten
		}
		return m.forgetting(gone), nil
	}
	if err := m.unheard(id); err != nil {
		return Forgetting{}, err
	}
	out := m.forgetting(gone)
	if q.DryRun {
		return out, nil
	}
	if c := m.calls.current; c != nil {
		c.frees = out
	}
	_, err = m.propose(chronicle.Forget{Peer: id, Evicted: gone.Evicted})
	return out, err
}

// reconsider takes back what is not wanted any more. What was sent may still be decided, as long as nobody has admitted that
// peer.
func (m *Machine) reconsider() {
	unwanted := func(p *replog.Proposal) bool {
		return departure.IsUnwanted(m.members.View(), p.First(), p.Last(), p.Since())
	}
	if m.log.Withdraw(unwanted) {
		m.calls.changed = true
	}
}

// forgetting says what forgetting a peer frees.
func (m *Machine) forgetting(gone *chronicle.Gone) Forgetting {
	f := Forgetting{Peer: m.members.View().NameOf(gone.ID), ID: gone.ID.String(), Evicted: gone.Evicted}
	var all addr.Count
	for _, p := range m.state.Pools {
		for r := range p.Ring.OwnedBy(gone.ID) {
			f.Ranges++
			all = all.Plus(r.Size())
		}
	}
	f.Addresses = uint64(all)
	return f
}

// unheard reports that nobody hears from a peer, or has containers in its space, as far
// as can be asked, and a majority of the voters can; or why that is not known.
func (m *Machine) unheard(id peer.ID) error {
	if m.members.View().Present(id) || m.livesIn(id) {
		return m.errThere(id, m.members.Self())
	}
	if !m.mayTell() {
		return waitFor(failf(ErrNotReady, "ringlet on %s has just started, and waits for the other hosts and for the engine's list: try again in a moment, and see ringlet status if it fails again", m.cfg.Name))
	}
	r := m.members.Departures.Ask(m.members.View(), id, m.trade.NextQuestion)
	switch {
	case r.IsClear():
		return nil
	case r.By != peer.None:
		return m.errThere(id, r.By)
	case !r.Majority:
		return m.waitForMajority()
	}
	return waitFor(failf(ErrNotReady, "%s is reachable, but did not say whether it hears from %s, or has containers with addresses of it: see ringlet status there, and try again", m.names(r.Open), m.members.View().NameOf(id)))
}

// mayTell reports whether this peer can say that it does not hear from another one, and has no
// containers in its space: it has been there for a while, and its engine has listed what it has,
// if it will.
func (m *Machine) mayTell() bool {
	return m.members.View().HasListened(cluster.ReachTime) && !m.members.IsChecking() && (!m.engine.WillList() || !m.engine.Complete().IsZero())
}

// livesIn reports whether containers of this host have addresses in the space of
// another peer, by the engine's last list: as where its plugin was installed anew under
// another name, and that peer is its former self.
func (m *Machine) livesIn(id peer.ID) bool {
	for _, p := range m.pools.Sorted() {
		for o := range p.Seen {
			if t, _ := p.Ring.At(o); t.Owner == id {
				return true
			}
		}
	}
	return false
}

func (m *Machine) errThere(id, by peer.ID) error {
	return departure.There(m.members.View(), id, by, m.livesIn(id))
}

// peerMeant is departure.Find for a call that may be served several times: it means
// the same peer each time, also when that has been evicted meanwhile.
func (m *Machine) peerMeant(ref string, wanted departure.Membership) (peer.ID, error) {
	c := m.calls.current
	if c != nil && c.meant != peer.None {
		return c.meant, nil
	}
	id, err := departure.Find(m.members.View(), ref, wanted)
	if c != nil && err == nil {
		c.meant = id
	}
	return id, err
}

// recover founds the cluster anew from this peer's own state, for an operator
// who states that a majority of its votes is gone for good (protocol, 4.5).
func (m *Machine) recover(*RecoverRequest) error {
	switch {
	case m.log.Err() != nil || m.members.IsSuspended():
		return m.usable()
	case m.log.IsOutdated():
		return m.errOutdated()
	case m.state.Slot == 0 || !m.members.IsMember() && !m.mayReturn():
		return failf(ErrBadRequest, "ringlet on %s is in no cluster that it could recover: see ringlet status", m.cfg.Name)
	case m.members.View().Alone():
		return nil
	}
	if err := departure.MayRecover(m.members.View()); err != nil && !m.lacks(rule.Recovery) {
		return err
	}
	id := formation.NewID(m.cfg.Rand)
	state, err := m.state, error(nil)
	if !m.lacks(rule.Supposed) {
		state, err = m.log.Supposed()
	}
	if err == nil {
		state, err = state.Refound(id, m.founder())
	}
	if err != nil {
		return failf(ErrSuspended, "the state of %s cannot be used: %v", m.cfg.Name, err)
	}
	if !m.lacks(rule.Leap) {
		state.Identities.Leap()
		state.Locks.Leap()
	}
	state.Forgo(m.members.Self(), m.log.UnderWay())
	m.dropProposals()
	m.members.Check.Stop()
	m.members.Wish.Return()
	m.install(state)
	m.log.Next()
	m.note(Note{Kind: NoteRecovered})
	return nil
}

// mayReturn reports whether this peer was evicted, has what it had still, and
// waits to be admitted again.
func (m *Machine) mayReturn() bool {
	gone := m.state.Gone(m.members.Self())
	return gone != nil && !gone.Forgotten
}

// dropProposals forgets what was to be agreed with a cluster that is no more.
// What was set aside for it is no more: nobody can decide it now, and whose it is the
// state tells that comes next.
func (m *Machine) dropProposals() {
	for _, p := range m.log.Drop() {
		m.restoreAside(p)
	}
}

// endQuarantine has a peer forgotten that was evicted long ago, if the settings say so.
func (m *Machine) endQuarantine() {
	m.background(m.members.Departures.EndQuarantine(m.members.View(), m.cfg.Quarantine, func(id peer.ID) bool { return m.unheard(id) == nil })...)
}
