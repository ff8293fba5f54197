package ipam

// takePresence takes in what the carrier believes of a peer.
func (m *Machine) takePresence(ev *Presence) {
	if ev.Self {
		m.members.TakeSeat(ev.Seat)
	} else if m.members.TakePresence(ev.Peer, ev.Alive, ev.Name, ev.Addr, ev.Seat) {
		m.warnPeer(ev.Peer)
	}
}
