package gossip

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam/peer"
)

// table is who is known, and where. It is fed by events, since memberlist's
// own table must not be read while it changes. Safe for concurrent use; its
// lock is never held while memberlist is called, whose callbacks take it.
type table struct {
	self        peer.ID
	seedIndexOf func(netip.AddrPort) int

	// wake has room for one: something is in changed.
	wake chan struct{}

	mu         sync.Mutex
	generation int // counts memberlist's objects; those of the past are not listened to
	open       bool
	known      map[peer.ID]*member
	where      map[netip.Addr]int // how many of them are, or were last, at an address
	alive      int
	aliveSince time.Time        // since when somebody is alive
	changed    map[peer.ID]bool // not yet announced to Config.Presence
}

// member is another peer.
type member struct {
	Presence
	seen      time.Time // the last event, or what was remembered
	announced bool      // Config.Presence knows of it
}

func newTable(self peer.ID, seedIndexOf func(netip.AddrPort) int, remembered []Contact) *table {
	t := &table{
		self: self, seedIndexOf: seedIndexOf, wake: make(chan struct{}, 1),
		known: make(map[peer.ID]*member), where: make(map[netip.Addr]int), changed: make(map[peer.ID]bool),
	}
	for _, c := range remembered {
		addr := unmap(c.Addr)
		if c.ID != self && c.ID != peer.None && addr.IsValid() {
			t.moved(t.known[c.ID], addr)
			t.known[c.ID] = &member{Presence: Presence{ID: c.ID, Addr: addr, SeedIndex: seedIndexOf(addr)}, seen: c.Seen}
		}
	}
	return t
}

// begin starts listening to a new memberlist, and returns what its events are
// to be marked with.
func (t *table) begin() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	t.open = true
	return t.generation
}

// end stops listening. Nobody is known to be alive from here on.
func (t *table) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
	for _, m := range t.known {
		t.setAlive(m, false, now)
	}
}

// appeared notes that a peer is alive, with what it says of itself.
func (t *table) appeared(generation int, p Presence, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open || generation != t.generation || p.ID == t.self {
		return
	}
	m := t.known[p.ID]
	if m == nil {
		m = &member{}
		t.known[p.ID] = m
	}
	t.moved(m, p.Addr)
	p.SeedIndex = t.seedIndexOf(p.Addr)
	p.Alive = m.Alive
	m.Presence = p
	t.setAlive(m, true, now)
	t.change(m)
}

// disappeared notes that a peer has left or does not answer.
func (t *table) disappeared(generation int, id peer.ID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.known[id]; m != nil && t.open && generation == t.generation {
		t.setAlive(m, false, now)
	}
}

func (t *table) setAlive(m *member, alive bool, now time.Time) {
	if m.Alive == alive {
		return
	}
	m.Alive, m.seen = alive, now
	if alive {
		if t.alive++; t.alive == 1 {
			t.aliveSince = now
		}
	} else {
		t.alive--
	}
	t.change(m)
}

func (t *table) change(m *member) {
	m.announced = true
	t.changed[m.ID] = true
	wake.Up(t.wake)
}

// next takes one change that was not announced yet.
func (t *table) next() (Presence, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.changed {
		delete(t.changed, id)
		if m := t.known[id]; m != nil {
			return m.Presence, true
		}
	}
	return Presence{}, false
}

// reindex looks up the seed index of each peer again, after names were looked up.
func (t *table) reindex() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.known {
		if seed := t.seedIndexOf(m.Addr); seed != m.SeedIndex {
			m.SeedIndex = seed
			if m.announced {
				t.change(m)
			}
		}
	}
}

// forget drops a peer that is not alive.
func (t *table) forget(id peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.known[id]; m != nil && !m.Alive {
		t.moved(m, netip.AddrPort{})
		delete(t.known, id)
	}
}

// moved notes that a peer is at another address than it was; nil: a new one, the zero address: nowhere.
func (t *table) moved(m *member, to netip.AddrPort) {
	if m != nil && m.Addr.IsValid() {
		if from := m.Addr.Addr(); t.where[from] > 1 {
			t.where[from]--
		} else {
			delete(t.where, from)
		}
	}
	if to.IsValid() {
		t.where[to.Addr()]++
	}
}

// holds reports whether a peer is at an address, or was last.
func (t *table) holds(a netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.where[a] > 0
}

// numAlive returns how many others are alive.
func (t *table) numAlive() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.alive
}

// census returns how many others are alive, how many are known, and since when
// somebody is alive.
func (t *table) census() (alive, known int, aliveSince time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.alive, len(t.known), t.aliveSince
}

// addr returns where a peer is, or was last.
func (t *table) addr(id peer.ID) (netip.AddrPort, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.known[id]
	if m == nil {
		return netip.AddrPort{}, false
	}
	return m.Addr, true
}

// seedIndex returns the seed index of a peer, and whether it is known to be alive.
func (t *table) seedIndex(id peer.ID) (seed int, alive bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.known[id]; m != nil {
		return m.SeedIndex, m.Alive
	}
	return 0, false
}

// living returns who is alive, in no order.
func (t *table) living() []Presence {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []Presence
	for _, m := range t.known {
		if m.Alive {
			found = append(found, m.Presence)
		}
	}
	return found
}

// contacts returns where everybody was last seen, in order of their IDs.
func (t *table) contacts(now time.Time) []Contact {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make([]Contact, 0, len(t.known))
	for _, id := range slices.SortedFunc(maps.Keys(t.known), peer.ID.Compare) {
		c := Contact{ID: id, Addr: t.known[id].Addr, Seen: t.known[id].seen}
		if t.known[id].Alive {
			c.Seen = now
		}
		found = append(found, c)
	}
	return found
}

// missing returns the addresses at which somebody was, or is expected, and at
// which nobody is alive.
func (t *table) missing(expected []netip.AddrPort) []netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	where := make(map[netip.AddrPort]bool)
	for _, a := range expected {
		where[a] = true
	}
	for _, m := range t.known {
		where[m.Addr] = true
	}
	for _, m := range t.known {
		if m.Alive {
			delete(where, m.Addr)
		}
	}
	return slices.SortedFunc(maps.Keys(where), netip.AddrPort.Compare)
}
