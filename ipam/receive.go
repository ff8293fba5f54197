package ipam

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/suspend"
	"github.com/ringlet/ringlet/ipam/wire"
)

// receive takes in a frame of another peer.
func (m *Machine) receive(msg *Message) {
	f := msg.Frame
	if f.From == m.members.Self() {
		m.stopIf(m.members.Suspension.TakeDouble(m.ownStart(), cluster.Start{Boot: f.Boot, Nonce: f.Nonce}))
		return
	}
	if f.To != m.members.Self() && f.To != peer.None {
		return // it was for a peer that was here before
	}
	m.members.Contacts.TakeSeat(f.From, msg.Seat)
	if twin, ok := f.Body.(wire.Twin); ok {
		m.stopIf(m.members.Suspension.TakeTwin(m.members.View(), m.ownStart(), f.From, twin))
		return
	}
	counts, later := m.checkStart(f)
	if !counts || !m.checkCluster(f) {
		return
	}
	if later && m.state.Member(f.From) != nil {
		m.trade.AnnounceTo(f.From, m.spaces())
	}
	first := m.members.Contacts.Hear(m.members.View(), &f.Header)
	m.members.NewDB.Hear(f.From)
	m.compare(f)
	if first || later {
		m.warnPeer(f.From)
	}
	switch b := f.Body.(type) {
	case wire.Hello:
		m.members.Contacts.Introduce(m.members.View(), f.From, b.Name, b.Machine, b.Spoken)
		m.members.NewDB.TakeListing(f.From, b.Listing)
		m.members.Seeker.Meet(m.members.View(), f.From, b.Formation, b.Observer)
		m.welcome(f.From, b.Question)
	case wire.Welcome:
		m.members.Contacts.Introduce(m.members.View(), f.From, b.Name, b.Machine, b.Spoken)
		m.members.NewDB.TakeListing(f.From, b.Listing)
		m.members.Seeker.Meet(m.members.View(), f.From, b.Formation, b.Observer)
		m.takeWelcome(f, b)
	case wire.Copied:
		m.takeCopied(f.From, b)
	case wire.Decided:
		m.takeDecided(b)
	case wire.Snapshot:
		m.takeSnapshot(f.Header, b)
	case wire.Join:
		m.takeJoin(f, b)
	case wire.Ask:
		m.takeAsk(f, b)
	case wire.Answer:
		m.calls.changed = m.trade.TakeAnswer(f.From, b) || m.calls.changed
	case wire.UsedUp:
		m.takeUsedUp(f.From)
	case wire.InUse:
		m.takeInUse(f.From, b)
	case wire.Announce:
		m.calls.changed = m.trade.TakeAnnounce(f.From, f.Slot, b) || m.calls.changed
	case wire.Inquire:
		if heard := m.members.View().Present(b.Peer) || m.livesIn(b.Peer); heard || m.mayTell() {
			m.send(f.From, wire.Report{ID: b.ID, Peer: b.Peer, Heard: heard})
		}
	case wire.Report:
		m.calls.changed = m.members.Departures.TakeReport(f.From, b) || m.calls.changed
	case wire.Beat:
	default:
		if d := m.log.Take(f); d != nil {
			m.decided(d)
		}
	}
	m.log.TakeQueued()
	// What it knows and this peer does not; a decision may just have told it.
	if f.Slot > m.state.Slot && m.mayFollow(f) {
		m.log.Pull(f.From)
	}
}

// checkCluster reports whether a frame is for this peer's cluster. Clusters
// that meet do not merge (protocol, 6.4).
func (m *Machine) checkCluster(f *wire.Frame) bool {
	none := [16]byte{}
	if f.Cluster == none || f.Cluster == m.state.Cluster || m.state.Cluster == none {
		return true
	}
	h, asks := f.Body.(wire.Hello)
	met := m.members.Contacts.HearForeign(m.members.View(), &f.Header, h.Name)
	if asks {
		m.welcome(f.From, h.Question) // so that it knows as well
	}
	m.giveWay(f, met)
	return false
}

// mayFollow reports whether this peer may learn slots from the sender of a
// frame: those of its own cluster, or, if it has none and may not found one,
// those of any.
func (m *Machine) mayFollow(f *wire.Frame) bool {
	return f.Cluster != [16]byte{} && (f.Cluster == m.state.Cluster || m.state.Slot == 0 && m.members.Seeker.Joins())
}

// compare holds another peer's digest of the same slot against this one's.
// They differ only by a defect. The peer that is not with a majority of the
// voters stops handing out (protocol, 9).
func (m *Machine) compare(f *wire.Frame) {
	if f.Slot != m.state.Slot || f.Slot == 0 || f.Cluster != m.state.Cluster || f.Digest == m.log.Digest() {
		return
	}
	if m.log.IsOutdated() || m.members.View().Older(f.From) {
		return // the two write the same state in different ways
	}
	if m.lacks(rule.Digests) || !m.members.Contacts.Compare(m.members.View(), &f.Header, m.log.Digest()) {
		return
	}
	m.stopIf(m.members.Suspension.Suspend(suspend.Differs, fmt.Sprintf("the state of this peer at slot %d differs from that of %s: one of the two has a defect", f.Slot, m.members.View().NameOf(f.From))))
}

// founder is how this peer introduces itself.
func (m *Machine) founder() chronicle.Founder {
	return chronicle.Founder{ID: m.members.Self(), Name: m.cfg.Name, Boot: m.members.Me.Boot(), Machine: m.cfg.Machine}
}
