package ipam

import "github.com/ringlet/ringlet/ipam/wire"

// receive takes in a frame of another peer.
func (m *Machine) receive(msg *Message) {
	f := msg.Frame
	is := m.members.Admit(f, msg.Seat)
	if is.Later {
		m.trade.Restarted(f.From)
	}
	if is.GivesWay {
		m.dissolve(f.From)
	}
	if !is.Counts {
		return
	}
	if is.Later && m.state.Member(f.From) != nil {
		m.trade.AnnounceTo(f.From, m.spaces())
	}
	if is.First || is.Later {
		m.warnPeer(f.From)
	}
	switch b := f.Body.(type) {
	case wire.Decided:
		m.takeDecided(b)
	case wire.Snapshot:
		m.takeSnapshot(f.Header, b)
	case wire.Ask:
		m.takeAsk(f, b)
	case wire.Answer:
		m.calls.changed = m.trade.TakeAnswer(f.From, b) || m.calls.changed
	case wire.InUse:
		m.takeInUse(f.From, b)
	case wire.Announce:
		m.calls.changed = m.trade.TakeAnnounce(f.From, f.Slot, b) || m.calls.changed
	case wire.Inquire:
		m.members.Report(f.From, b)
	default:
		_, welcomes := b.(wire.Welcome)
		m.calls.changed = m.calls.changed || welcomes && m.isRenewing()
		actions, taken := m.members.Take(f)
		m.background(actions...)
		if taken {
			break
		}
		if d := m.log.Take(f); d != nil {
			m.decided(d)
		}
	}
	m.log.TakeQueued()
	// What it knows and this peer does not; a decision may just have told it.
	if m.members.Lags(f) {
		m.log.Pull(f.From)
	}
}

// takePresence takes in what the carrier believes of a peer.
func (m *Machine) takePresence(ev *Presence) {
	if ev.Self {
		m.members.TakeSeat(ev.Seat)
	} else if m.members.TakePresence(ev.Peer, ev.Alive, ev.Name, ev.Addr, ev.Seat) {
		m.warnPeer(ev.Peer)
	}
}
