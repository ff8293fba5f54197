package ipam

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// served is what follows from a network and from the pools that there are. An
// engine names the whole network in each call, so it is worked out once.
type served struct {
	network Network
	at      version
	pool    *pool      // nil: nothing is kept here
	want    addr.Range // the part of the pool that it takes addresses from
	key     uint32     // what records keep of the network
}

// version tells one content of the state from all others.
type version struct {
	state *chronicle.State
	slot  uint64
}

func (m *Machine) version() version { return version{m.state, m.state.Slot} }

// leastServed and mostServed bound the places in which networks are kept.
const (
	leastServed = 1 << 6
	mostServed  = 1 << 13
	// ways is in how many places, one behind the other, a network may be: those
	// that share all of them take turns, and cost time alone.
	ways = 4
)

// servedPlaces are places for what follows from networks: a power of two, and those
// behind the last one.
type servedPlaces struct {
	all   []served
	shift int // which bits of a hash tell the place
	last  *served
}

func makeServed(n int) servedPlaces {
	all := make([]served, n+ways-1)
	return servedPlaces{all: all, shift: bits.LeadingZeros64(uint64(n)) + 1, last: &all[0]}
}

// of returns where a network on the pool may be kept. Pools follow one another at even
// distances, of which all bits are to tell.
func (l *servedPlaces) of(cidr netip.Prefix) *[ways]served {
	const mix = 0x9e3779b97f4a7c15
	b := cidr.Addr().As16()
	n := binary.BigEndian.Uint64(b[:8])*mix + binary.BigEndian.Uint64(b[8:]) + uint64(cidr.Bits())
	n = (n ^ n>>32) * mix
	return (*[ways]served)(l.all[n>>l.shift:])
}

// makeRoom sees to it that there are two places for each pool, as far as may be.
// What is kept is dropped with the places, and worked out anew.
func (m *Machine) makeRoom() {
	had := len(m.served.all) - (ways - 1)
	n := had
	for n < min(2*len(m.pools), mostServed) {
		n *= 2
	}
	if n > had {
		m.served = makeServed(n)
	}
}

// servedBefore returns what is kept of just that network, which so is one that a pool
// can serve, or nil. It may be of an older content of the state.
func (m *Machine) servedBefore(n *Network) *served {
	if s := m.served.last; s.pool != nil && s.network == *n {
		return s
	}
	places := m.served.of(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool != nil && s.network == *n {
			m.served.last = s
			return s
		}
	}
	return nil
}

// servedPool returns the pool of a network, or nil if there is none.
func (m *Machine) servedPool(n *Network) *pool {
	now := m.version()
	if s := m.served.last; s.pool != nil && s.network.Pool == n.Pool && s.at == now {
		return s.pool
	}
	places := m.served.of(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool != nil && s.network.Pool == n.Pool && s.at == now {
			m.served.last = s
			return s.pool
		}
	}
	return m.poolOf(n.Pool)
}

// serve finds the pool of a network that can be served, and makes the pool if
// there is none: the pool ID says all that is needed, should this peer have
// lost it. What follows from the network is kept.
func (m *Machine) serve(n *Network) (*served, error) {
	p, err := m.joinPool(n.Pool, poolSpec{reserved: &PoolRequest{Gateway: n.Gateway, GatewayAddr: n.GatewayAddr}})
	if err != nil {
		return nil, err
	}
	m.keepGateway(p, n)
	m.makeRoom()
	s := m.servedBefore(n)
	if s == nil {
		s = m.servedLeast(n)
	}
	*s = served{network: *n, at: m.version(), pool: p, want: addr.RangeOf(p.CIDR, n.Range), key: networkKey(n.ID())}
	return s, nil
}

// servedLeast returns a place for a network that is kept nowhere: one with nothing
// of today if there is one.
func (m *Machine) servedLeast(n *Network) *served {
	places := m.served.of(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool == nil || s.at != m.version() {
			return s
		}
	}
	return &places[0]
}

// ownMember is this peer's entry in the roster, and what follows from that, as of a
// content of the state.
type ownMember struct {
	at     version
	member *chronicle.Member // nil: it is in none
	sole   bool              // no other host can have networks in the pools
	dealt  int               // how many peers a pool is dealt to
}

// me returns this peer's entry in the roster, or nil. It is looked for once in
// each slot, for the roster may be long.
func (m *Machine) me() *chronicle.Member { return m.inRoster().member }

// soleUser reports whether no other host can have networks in the pools: this
// peer is alone, and nobody that was evicted may be back.
func (m *Machine) soleUser() bool { return m.inRoster().sole }

// inRoster returns what the roster says of this peer, looked for once in each slot.
func (m *Machine) inRoster() *ownMember {
	if m.own.at != m.version() {
		m.lookUpOwn()
	}
	return &m.own
}

func (m *Machine) lookUpOwn() {
	sole := m.alone() && !slices.ContainsFunc(m.state.Former, func(g chronicle.Gone) bool { return !g.Forgotten })
	dealt := 0
	for i := range m.state.Roster {
		if m.state.Roster[i].Phase != chronicle.Draining {
			dealt++
		}
	}
	m.own = ownMember{m.version(), m.state.Member(m.self), sole, dealt}
}
