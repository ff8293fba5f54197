package ipam

import (
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// takePresence takes in what the carrier believes of a peer.
func (m *Machine) takePresence(ev *Presence) {
	if ev.Self {
		if m.state.Slot == 0 && m.members.Seeker.TakeSeat(ev.Seat) {
			for _, id := range m.members.View().Known() {
				m.greetPeer(id) // who has heard from it was told of no seat
			}
		}
		m.calls.changed = true
		return
	}
	if ev.Peer == m.members.Self() || ev.Peer == peer.None {
		return
	}
	turns, renamed := m.members.Contacts.TakePresence(m.members.View(), ev.Peer, ev.Alive, ev.Name, ev.Addr)
	m.members.Contacts.TakeSeat(ev.Peer, ev.Seat)
	m.calls.changed = m.calls.changed || turns || renamed
	if turns {
		m.warnPeer(ev.Peer)
	}
	if ev.Alive && m.state.Slot == 0 {
		m.greetPeer(ev.Peer)
	}
}

// header returns the header of what this peer sends now.
func (m *Machine) header() wire.Header {
	return wire.Header{
		Cluster: m.state.Cluster, From: m.members.Self(), Boot: m.members.Me.Boot(), Nonce: m.members.Me.Nonce(),
		Slot: m.state.Slot, Digest: m.log.Digest(),
	}
}

// send sends a body to another peer in this step. To peer.None it is a hint for everybody.
func (m *Machine) send(to peer.ID, body wire.Body) { m.out.Send(to, body) }

// post turns what the step has sent into frames, under the header of what is known
// now.
func (m *Machine) post() {
	if m.out.Unposted() {
		m.out.Post(m.header())
	}
}

// beat makes the frame that shows what this peer knows, if that has changed
// and there is anybody to see it.
func (m *Machine) beat() {
	if m.members.Contacts.IsEmpty() && !m.members.Seeker.Joins() {
		return
	}
	if !m.out.HasShown(m.state.Slot, m.members.Me.Boot(), m.state.Cluster) {
		m.out.Beat(m.header())
	}
}
