package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/wire"
)

// drain has the log handle what this peer has sent to itself. A decision that comes of it is learned at once.
func (m *Machine) drain() {
	for d := m.log.Drain(); d != nil; d = m.log.Drain() {
		m.decided(d)
	}
}

// decided takes in the decision of this peer's own attempt. The next slot begins before others than the voters are told.
func (m *Machine) decided(d *replog.Decision) {
	batch, ok := m.learn(d.Value)
	if ok {
		m.log.Next()
	}
	m.log.Tell(d, batch)
}

// learn takes in the decided value of the next slot: it is written down, then
// applied, and the spaces of this peer follow the rings. It reports whether it was; if
// so [replog.Log.Next] is to follow.
//
// A peer that does not speak the level of the slot leaves it, and all that
// follow, for after its upgrade.
func (m *Machine) learn(value []byte) ([]chronicle.Command, bool) {
	if m.log.IsOutdated() || m.members.IsSuspended() {
		return nil, false
	}
	batch, understood := m.log.Decode(value)
	if !understood {
		m.calls.changed = true
		return nil, false
	}
	if !m.members.Follows(batch) {
		return nil, false
	}
	was := m.members.IsMember()
	m.conclude(was, m.log.Apply(value, batch, m.follow))
	return batch, true
}

// conclude has the spaces and calls of this peer, and its place in the cluster, follow
// once the state stands at another slot.
func (m *Machine) conclude(wasMember bool, settled []*replog.Proposal) {
	m.settleProposals(settled)
	m.pools.HoldKept()
	if m.members.Conclude(wasMember) {
		m.warnings.ExtendBy(m.members.Self())
		m.warnings.SendAgain()
		m.note(Note{Kind: NoteJoined})
	}
}

// takeDecided learns slots that another peer knows to be decided.
func (m *Machine) takeDecided(d wire.Decided) {
	learned := false
	for i, value := range d.Values {
		if d.First+uint64(i) != m.state.Slot+1 {
			continue
		}
		m.members.CheckVeto()
		if _, ok := m.learn(value); ok {
			m.log.Next()
			learned = true
		}
	}
	if learned {
		m.log.PassOn(d)
	}
}

// takeSnapshot replaces the state by one at a later slot.
func (m *Machine) takeSnapshot(h wire.Header, s wire.Snapshot) {
	state := m.log.ReadSnapshot(h, s)
	if state == nil {
		m.calls.changed = m.calls.changed || m.log.IsOutdated()
		return
	}
	m.members.CheckVeto()
	if !m.members.IsSuspended() && m.members.FollowsTo(state) {
		m.install(state)
		m.log.Next()
	}
}

// install makes a later state this peer's.
func (m *Machine) install(state *chronicle.State) {
	was := m.members.IsMember()
	settled := m.log.Install(state, m.followFrom)
	m.members.SaveRoster()
	m.conclude(was, settled)
}

// followFrom has the spaces of this peer follow a state that came in place of an old one.
func (m *Machine) followFrom(old *chronicle.State) {
	for _, p := range m.pools.Sorted() {
		if m.state.Pool(p.Key) == nil {
			m.dropPool(p)
		}
	}
	for _, cp := range m.state.Pools {
		p := m.pools.For(cp)
		p.Become(cp)
		m.followRing(p)
		p.KeepNoMore(addr.Whole(p.CIDR))
		m.pools.LookSoon(p, addr.Whole(p.CIDR))
	}
	for _, gone := range m.state.Former {
		before := old.Gone(gone.ID)
		if !gone.Forgotten || gone.Machine == 0 || gone.Machine != m.members.Machine() || before != nil && before.Forgotten {
			continue
		}
		m.awaitListAnew() // this peer may have inherited in one of the slots
		m.note(Note{Kind: NoteInherited, Holder: string(gone.Name)})
	}
}
