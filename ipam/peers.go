package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// view is the cluster as this peer sees it in this step.
func (m *Machine) view() cluster.View {
	return cluster.View{Contacts: m.contacts, Self: m.me.ID(), Name: m.cfg.Name, State: m.state, Now: m.now, Undisturbed: m.me.Undisturbed()}
}

// takePresence takes in what the carrier believes of a peer.
func (m *Machine) takePresence(ev *Presence) {
	if ev.Self {
		if m.state.Slot == 0 && m.seeker.TakeSeat(ev.Seat) {
			for _, id := range m.view().Known() {
				m.greetPeer(id) // who has heard from it was told of no seat
			}
		}
		m.calls.changed = true
		return
	}
	if ev.Peer == m.me.ID() || ev.Peer == peer.None {
		return
	}
	turns, renamed := m.contacts.TakePresence(m.view(), ev.Peer, ev.Alive, ev.Name, ev.Addr)
	m.contacts.TakeSeat(ev.Peer, ev.Seat)
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
		Cluster: m.state.Cluster, From: m.me.ID(), Boot: m.me.Boot(), Nonce: m.me.Nonce(),
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
	if m.contacts.IsEmpty() && !m.seeker.Joins() {
		return
	}
	if !m.out.HasShown(m.state.Slot, m.me.Boot(), m.state.Cluster) {
		m.out.Beat(m.header())
	}
}

// member reports whether this peer is in the roster.
func (m *Machine) member() bool { return m.log.Member() != nil }

// draining reports whether this peer is to give up its space.
func (m *Machine) draining() bool {
	member := m.log.Member()
	return member != nil && member.Phase == chronicle.Draining
}
