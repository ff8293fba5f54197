package ipam

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// contact is what this peer knows of another one, beside the state. Of all
// this only the start is used for anything that must be right.
type contact struct {
	name    peer.Name
	machine uint64
	addr    string
	accepts bool  // it knew this very start of this peer as the latest
	start   start // the latest known; kept on disk for peers of the cluster

	alive   bool      // as the carrier says
	since   time.Time // when that began
	joined  time.Time // when it was last admitted, as far as this peer saw
	heard   time.Time // the last frame; zero: none since this peer started
	met     time.Time // the last Hello or Welcome, likewise
	cluster [16]byte
	slot    uint64
	digest  uint64
	spoken  chronicle.Level // the highest level; 0: it has not said since either of us started
	seat    int
	// listing is how far it has come with what its engine has, as far as it has
	// said since this peer started; unanswered counts how often it was asked since.
	listing    wire.Listing
	unanswered int
	forming    bool                             // it would found a cluster with this peer
	spare      map[chronicle.PoolKey]wire.Spare // what it announced last
	applies    *applicant                       // nil: it does not ask to be admitted
}

// introduced notes what a Hello or a Welcome says of its sender.
func (m *Machine) introduced(id peer.ID, c *contact, name peer.Name, machine uint64, spoken chronicle.Level, l wire.Listing) {
	renamed := name != c.name
	c.name, c.machine, c.met = name, machine, m.now
	c.spoken, c.listing, c.unanswered = spoken, l, 0
	if renamed {
		m.saveContact(id, c) // the carrier may tell nothing new any more
	}
}

// start tells one start of a peer from all others.
type start struct {
	boot  peer.Boot
	nonce uint64
}

// contact returns what is known of a peer.
func (m *Machine) contact(id peer.ID) *contact {
	c := m.contacts[id]
	if c == nil {
		c = &contact{}
		m.contacts[id] = c
	}
	return c
}

// reachTime is for how long a peer counts as reachable after a frame of it
// came, if the carrier has not said otherwise since.
const reachTime = 5 * time.Second

// live reports whether a peer of the cluster can probably be reached.
func (m *Machine) live(id peer.ID) bool {
	if c := m.contacts[id]; c != nil && m.state.Slot > 0 && c.cluster != ([16]byte{}) && c.cluster != m.state.Cluster {
		return false // it lives, and counts in another one
	}
	return m.present(id)
}

// present reports whether a peer can probably be reached, whatever cluster it
// is in.
func (m *Machine) present(id peer.ID) bool {
	if id == m.self {
		return true
	}
	c := m.contacts[id]
	return c != nil && (c.alive || !c.heard.IsZero() && m.now.Sub(c.heard) < reachTime && c.heard.After(c.since))
}

// nameOf names a peer for people.
func (m *Machine) nameOf(id peer.ID) string {
	var admitted peer.Name
	if member := m.state.Member(id); member != nil {
		admitted = member.Name
	} else if gone := m.state.Gone(id); gone != nil {
		admitted = gone.Name
	}
	if name := m.goesBy(id, admitted); name != "" {
		return string(name)
	}
	return unnamed(id)
}

// unnamed stands for the name of a peer that has told none.
func unnamed(id peer.ID) string { return "peer " + id.Short() }

// goesBy returns the name by which a peer goes now, as far as it has said: that with
// which it was admitted may be another.
func (m *Machine) goesBy(id peer.ID, admitted peer.Name) peer.Name {
	if id == m.self {
		return m.cfg.Name
	}
	if c := m.contacts[id]; c != nil && c.name != "" {
		return c.name
	}
	return admitted
}

// takePresence takes in what the carrier believes of a peer.
func (m *Machine) takePresence(ev *Presence) {
	if ev.Self {
		if m.seat != ev.Seat && m.state.Slot == 0 {
			m.seat = ev.Seat
			for _, id := range m.known() {
				m.greetPeer(id) // who has heard from it was told of no seat
			}
		}
		m.changed = true
		return
	}
	if ev.Peer == m.self || ev.Peer == peer.None {
		return
	}
	c := m.contact(ev.Peer)
	if c.alive != ev.Alive {
		c.alive, c.since = ev.Alive, m.now
		m.changed = true
		m.warnPeer(ev.Peer)
	}
	if ev.Name != "" && ev.Name != c.name {
		c.name, m.changed = ev.Name, true
		m.saveContact(ev.Peer, c)
	}
	c.seat = max(c.seat, ev.Seat)
	if ev.Addr != "" && ev.Addr != c.addr {
		c.addr = ev.Addr
		m.saveContact(ev.Peer, c)
	}
	if ev.Alive && m.state.Slot == 0 {
		m.greetPeer(ev.Peer)
	}
}

// header returns the header of what this peer sends now.
func (m *Machine) header() wire.Header {
	return wire.Header{
		Cluster: m.state.Cluster, From: m.self, Boot: m.boot, Nonce: m.nonce,
		Slot: m.state.Slot, Digest: m.digest(),
	}
}

// place is where a chronicle stands.
type place struct {
	cluster [16]byte
	slot    uint64
}

// digest returns the digest of the state, made once for each slot.
func (m *Machine) digest() uint64 {
	if m.state.Slot == 0 {
		return 0
	}
	if now := (place{m.state.Cluster, m.state.Slot}); m.digestAt != now {
		m.digestAt, m.digestValue = now, m.state.Digest()
	}
	return m.digestValue
}

// send sends a body to another peer, or hands it to this one, in this step.
// To peer.None it is a hint for everybody.
func (m *Machine) send(to peer.ID, body wire.Body) {
	if to == m.self {
		m.local = append(m.local, body)
		return
	}
	m.out.Send(to, body)
}

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
	if len(m.contacts) == 0 && !m.joins && m.cfg.Formation.Size == 0 {
		return
	}
	if now := (shown{m.state.Slot, m.boot, m.state.Cluster}); now != m.shown {
		m.shown = now
		m.out.Beat(m.header())
	}
}

// shown is what the last beat showed.
type shown struct {
	slot    uint64
	boot    peer.Boot
	cluster [16]byte
}

// member reports whether this peer is in the roster.
func (m *Machine) member() bool { return m.me() != nil }

// draining reports whether this peer is to give up its space.
func (m *Machine) draining() bool {
	member := m.me()
	return member != nil && member.Phase == chronicle.Draining
}

// alone reports whether this peer is the whole roster.
func (m *Machine) alone() bool { return len(m.state.Roster) == 1 && m.state.Roster[0].ID == m.self }

// others returns the peers of the roster but this one.
func (m *Machine) others() []peer.ID {
	out := make([]peer.ID, 0, len(m.state.Roster))
	for _, member := range m.state.Roster {
		if member.ID != m.self {
			out = append(out, member.ID)
		}
	}
	return out
}

// liveVoters returns the voters that can probably be reached and understand
// what is to be decided, in order.
func (m *Machine) liveVoters() []peer.ID {
	return slices.DeleteFunc(m.state.Voters(), func(id peer.ID) bool { return !m.live(id) || m.older(id) })
}

// majority reports whether the peers have a majority of the present votes.
func (m *Machine) majority(peers []peer.ID) bool {
	e, err := paxos.NewElectorate(m.state.Voters())
	return err == nil && e.Majority(peers)
}

// cutOff reports whether no majority of the voters can be reached.
func (m *Machine) cutOff() bool { return !m.majority(m.liveVoters()) }
