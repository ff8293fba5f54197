package ipam

import (
	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// booting reports whether the boot check is under way: in it this peer neither votes nor hands out (protocol, 6.6).
func (m *Machine) booting() bool { return m.check.IsRunning() }

// beginCheck begins the boot check of a peer that is not alone.
func (m *Machine) beginCheck() {
	if m.state.Slot == 0 || m.view().Alone() {
		return
	}
	m.check.Begin(m.me.ID(), bootcheck.Wait(m.cfg.CallTime), m.cfg.Rand.Uint64())
	m.greetPeers()
}

// watchIf watches for a freeze where something was granted. A host that has left has nobody to ask behind one.
func (m *Machine) watchIf(granted bool) {
	if granted && !m.wish.HasLeft() {
		m.check.Granted()
	}
}

// greetPeers says hello to all that this peer knows.
func (m *Machine) greetPeers() {
	m.check.Asked()
	m.seeker.Called()
	for _, id := range m.view().Known() {
		// Who has just said who it is need not be asked again while a cluster
		// is looked for, only for the answer to a boot check.
		if v := m.view(); !m.booting() && v.Fresh(v.Of(id).Met, cluster.ReachTime) {
			continue
		}
		if !m.check.HasAnswered(id) {
			m.greetPeer(id)
		}
	}
}

// greetPeer says hello to one peer.
func (m *Machine) greetPeer(id peer.ID) {
	m.greetWith(id, m.check.Question())
}

// greetWith says hello to one peer, with a question that the answer repeats.
func (m *Machine) greetWith(id peer.ID, question uint64) {
	m.send(id, wire.Hello{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.newdb.Listing(), Spoken: m.cfg.Spoken, Question: question,
	})
}

// welcome answers a hello, from what is on disk. Where that is known to be wrong, the answer says
// of nobody's start that it is known.
func (m *Machine) welcome(to peer.ID, question uint64) {
	undecided := m.undecided()
	if undecided {
		m.log.FinishSlot() // it cannot go on before that
	}
	known := m.contacts.Of(to).Start
	if m.isSuspended() || m.log.Err() != nil {
		known = cluster.Start{}
	}
	if m.wish.HasLeft() && !m.member() {
		question = 0 // a device may have sent its Join of before it left again, and this would have it admitted (R63)
	}
	m.send(to, wire.Welcome{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.newdb.Listing(), Undecided: undecided, Spoken: m.cfg.Spoken, Question: question, Boot: known.Boot, Nonce: known.Nonce,
	})
}

// undecided reports whether this peer has accepted a change of the roster, or of a zone, in the slot
// that is next: what may change who votes. That may be decided although it does not know, and those who decide the
// slots behind it need not be of the present roster: they may have evicted a peer, and
// given up its space, of which neither it nor a majority that it knows has heard.
func (m *Machine) undecided() bool {
	return !m.lacks(rule.Undecided) && m.log.Accepted(func(a chronicle.Action) bool {
		switch a.(type) {
		case chronicle.Admit, chronicle.Evict, chronicle.Retire, chronicle.SetZone:
			return true
		}
		return false
	})
}

// takeWelcome counts an answer to this peer's hello.
func (m *Machine) takeWelcome(f *wire.Frame, w wire.Welcome) {
	m.calls.changed = m.calls.changed || m.isRenewing()
	m.takeCopied(f.From, wire.Copied{Boot: m.me.Boot(), Nonce: m.me.Nonce(), KnownBoot: w.Boot, KnownNonce: w.Nonce})
	if m.me.Is(w.Boot, w.Nonce) {
		m.suspension.Accept(f.From)
	}
	if (f.Cluster != m.state.Cluster || !m.me.Is(w.Boot, w.Nonce)) && !m.lacks(rule.Counted) {
		return // who is in no cluster knows nothing of this one
	}
	m.takeAnswered(f.From, w.Question)
	m.check.Take(f.From, w.Question, f.Slot, w.Undecided)
}

// checkBoot ends the boot check when it can.
func (m *Machine) checkBoot() {
	if !m.booting() {
		if m.check.MeetMajority(m.view()) {
			m.calls.changed = true
		}
		return
	}
	undecided := m.undecided()
	if undecided {
		m.log.FinishSlot()
	}
	if m.check.Look(m.view(), undecided, m.log.IsOutdated(), m.cfg.BootAlone) {
		m.log.SendAgain()
		m.calls.changed = true
		return
	}
	if m.check.IsDue() {
		m.greetPeers()
	}
}
