package ipam

import (
	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// beginCheck begins the boot check of a peer that is not alone.
func (m *Machine) beginCheck() {
	if m.state.Slot == 0 || m.members.View().Alone() {
		return
	}
	m.members.Check.Begin(m.members.Self(), bootcheck.Wait(m.cfg.CallTime), m.cfg.Rand.Uint64())
	m.greetPeers()
}

// watchIf watches for a freeze where something was granted. A host that has left has nobody to ask behind one.
func (m *Machine) watchIf(granted bool) {
	if granted && !m.members.Wish.HasLeft() {
		m.members.Check.Granted()
	}
}

// greetPeers says hello to all that this peer knows.
func (m *Machine) greetPeers() {
	m.members.Check.Asked()
	m.members.Seeker.Called()
	for _, id := range m.members.View().Known() {
		// Who has just said who it is need not be asked again while a cluster
		// is looked for, only for the answer to a boot check.
		if v := m.members.View(); !m.members.IsChecking() && v.Fresh(v.Of(id).Met, cluster.ReachTime) {
			continue
		}
		if !m.members.Check.HasAnswered(id) {
			m.greetPeer(id)
		}
	}
}

// greetPeer says hello to one peer.
func (m *Machine) greetPeer(id peer.ID) {
	m.greetWith(id, m.members.Check.Question())
}

// greetWith says hello to one peer, with a question that the answer repeats.
func (m *Machine) greetWith(id peer.ID, question uint64) {
	m.send(id, wire.Hello{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.members.Formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.members.NewDB.Listing(), Spoken: m.cfg.Spoken, Question: question,
	})
}

// welcome answers a hello, from what is on disk. Where that is known to be wrong, the answer says
// of nobody's start that it is known.
func (m *Machine) welcome(to peer.ID, question uint64) {
	undecided := m.members.Undecided()
	if undecided {
		m.log.FinishSlot() // it cannot go on before that
	}
	known := m.members.Contacts.Of(to).Start
	if m.members.IsSuspended() || m.log.Err() != nil {
		known = cluster.Start{}
	}
	if m.members.Wish.HasLeft() && !m.members.IsMember() {
		question = 0 // a device may have sent its Join of before it left again, and this would have it admitted (R63)
	}
	m.send(to, wire.Welcome{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.members.Formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.members.NewDB.Listing(), Undecided: undecided, Spoken: m.cfg.Spoken, Question: question, Boot: known.Boot, Nonce: known.Nonce,
	})
}

// takeWelcome counts an answer to this peer's hello.
func (m *Machine) takeWelcome(f *wire.Frame, w wire.Welcome) {
	m.calls.changed = m.calls.changed || m.isRenewing()
	m.takeCopied(f.From, wire.Copied{Boot: m.members.Me.Boot(), Nonce: m.members.Me.Nonce(), KnownBoot: w.Boot, KnownNonce: w.Nonce})
	if m.members.Me.Is(w.Boot, w.Nonce) {
		m.members.Suspension.Accept(f.From)
	}
	if (f.Cluster != m.state.Cluster || !m.members.Me.Is(w.Boot, w.Nonce)) && !m.lacks(rule.Counted) {
		return // who is in no cluster knows nothing of this one
	}
	m.takeAnswered(f.From, w.Question)
	m.members.Check.Take(f.From, w.Question, f.Slot, w.Undecided)
}

// checkBoot ends the boot check when it can.
func (m *Machine) checkBoot() {
	if !m.members.IsChecking() {
		if m.members.Check.MeetMajority(m.members.View()) {
			m.calls.changed = true
		}
		return
	}
	undecided := m.members.Undecided()
	if undecided {
		m.log.FinishSlot()
	}
	if m.members.Check.Look(m.members.View(), undecided, m.log.IsOutdated(), m.cfg.BootAlone) {
		m.log.SendAgain()
		m.calls.changed = true
		return
	}
	if m.members.Check.IsDue() {
		m.greetPeers()
	}
}
