package ipam

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Formation says how a cluster is founded by several hosts together.
type Formation = formation.Plan

// foundAlone has a peer that has deferred it found a cluster alone.
func (m *Machine) foundAlone() {
	m.members.Seeker.GoAlone()
	m.found()
	m.note(Note{Kind: NoteFounded})
	m.drain()
}

// found founds a cluster, alone or with those that this peer has met, if it is time.
func (m *Machine) found() {
	if m.log.IsDeciding() {
		return
	}
	if founding, now := m.members.Seeker.Found(m.members.View(), m.founder()); now {
		m.background(m.decidedAgain(founding)...)
	}
}

// seek looks for a cluster to be in: this peer says hello while it has none, and asks to be admitted when it is in no
// roster.
func (m *Machine) seek() {
	if m.members.Wish.HasLeft() || m.members.IsSuspended() {
		return
	}
	if m.state.Slot == 0 {
		if m.members.Seeker.CallsAgain() {
			m.greetPeers()
		}
		if m.members.Seeker.HasLooked(m.members.View()) {
			m.foundAlone()
			return
		}
		m.found()
		return
	}
	if m.members.IsMember() || m.members.IsChecking() || !m.members.Seeker.Applies() {
		return
	}
	gone := m.state.Gone(m.members.Self())
	// Also where it had been admitted again, and did not come to drain before it was lost anew.
	m.members.Wish.SetDrained(gone != nil && !gone.Forgotten && (m.members.Wish.Drained() || gone.Phase == chronicle.Draining))
	var live []peer.ID
	for _, id := range m.members.View().Others() {
		if m.members.View().Live(id) {
			live = append(live, id)
		}
	}
	if len(live) == 0 {
		m.greetPeers()
		return
	}
	m.send(live[m.cfg.Rand.IntN(len(live))], wire.Join{Name: m.cfg.Name, Machine: m.cfg.Machine})
}

// takeJoin challenges a peer that asks to be admitted.
func (m *Machine) takeJoin(f *wire.Frame, q wire.Join) {
	if !m.mayAdmit() {
		return
	}
	if m.state.Member(f.From) != nil {
		m.log.SendSlots(f.From, f.Slot)
		return
	}
	if m.state.UsedUp(f.From) && !m.lacks(rule.UsedUp) {
		m.send(f.From, wire.UsedUp{}) // a command would be refused, and cost a slot each second
		return
	}
	if gone := m.state.Gone(f.From); gone != nil && f.Slot < gone.Evicted {
		return // it asked before it was evicted last, and may have left since
	}
	if m.lacks(rule.Challenge) {
		m.background(formation.Admit(m.members.View(), f.From, q)...)
		return
	}
	m.greetWith(f.From, m.members.Admissions.Challenge(m.members.View(), f.From, q, m.cfg.Rand))
}

func (m *Machine) mayAdmit() bool {
	return m.state.Slot > 0 && m.members.IsMember() && !m.members.IsChecking() && !m.log.IsOutdated()
}

// takeAnswered has a peer admitted that has answered its challenge.
func (m *Machine) takeAnswered(id peer.ID, question uint64) {
	q, passes := m.members.Admissions.Answer(m.members.View(), id, question)
	if passes && m.mayAdmit() && m.state.Member(id) == nil && (!m.state.UsedUp(id) || m.lacks(rule.UsedUp)) {
		m.background(formation.Admit(m.members.View(), id, q)...)
	}
}

// giveWay dissolves the cluster of this peer, if it is its only member, has no pool and nobody
// holds a lock, so that it can join one that it has met, first at that time. It also turns from a cluster that it was
// about to join, and that is no more.
func (m *Machine) giveWay(f *wire.Frame, met time.Time) {
	if m.members.Seeker.HasStrayed(m.members.View()) {
		m.dissolve()
		m.log.Pull(f.From)
		return
	}
	if !m.members.View().Alone() || len(m.state.Pools) > 0 || len(m.state.Locks.Locks) > 0 || len(m.engine.IDs()) > 0 || m.log.Pending() > 0 || m.members.IsChecking() || m.wasShared() && !m.lacks(rule.Shared) {
		return
	}
	if !m.members.Seeker.GivesWay(m.members.View(), f.Cluster, met) {
		return
	}
	m.note(Note{Kind: NoteGaveWay})
	m.dissolve()
	m.log.Pull(f.From)
}

// wasShared reports whether others may know the cluster in which this peer is alone by now (R38). So it is with one that
// this peer has recovered: it has voted in the one before.
func (m *Machine) wasShared() bool {
	batches, all := m.log.Batches()
	return !all || slices.ContainsFunc(batches, func(batch []chronicle.Command) bool { return formation.WasShared(m.members.Self(), batch) })
}

// dissolve forgets a cluster in which this peer had nothing.
func (m *Machine) dissolve() {
	for _, p := range m.pools.Sorted() {
		m.dropPool(p)
	}
	m.log.Leave()
	m.members.NewDB.GiveWay()
	m.members.Seeker.GiveWay()
	m.calls.changed = true
}
