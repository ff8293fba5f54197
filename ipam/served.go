package ipam

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
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

// makeServed returns n places, a power of two, and those behind the last one.
func makeServed(n int) []served { return make([]served, n+ways-1) }

// servedPlaces returns where a network on the pool may be kept. Pools follow one
// another at even distances, of which all bits are to tell.
func (m *Machine) servedPlaces(cidr netip.Prefix) *[ways]served {
	const mix = 0x9e3779b97f4a7c15
	b := cidr.Addr().As16()
	n := binary.BigEndian.Uint64(b[:8])*mix + binary.BigEndian.Uint64(b[8:]) + uint64(cidr.Bits())
	n = (n ^ n>>32) * mix
	n >>= bits.LeadingZeros64(uint64(len(m.served))) + 1
	return (*[ways]served)(m.served[n:])
}

// makeRoom sees to it that there are two places for each pool, as far as may be.
// What is kept is dropped with the places, and worked out anew.
func (m *Machine) makeRoom() {
	had := len(m.served) - (ways - 1)
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
	places := m.servedPlaces(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool != nil && s.network == *n {
			return s
		}
	}
	return nil
}

// servedPool returns the pool of a network, or nil if there is none.
func (m *Machine) servedPool(n *Network) *pool {
	places := m.servedPlaces(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool != nil && s.network.Pool == n.Pool && s.at == m.version() {
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
	places := m.servedPlaces(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool == nil || s.at != m.version() {
			return s
		}
	}
	return &places[0]
}

// ownMember is this peer's entry in the roster, as of a content of the state.
type ownMember struct {
	id     peer.ID
	at     version
	member *chronicle.Member // nil: it is in none
}

// me returns this peer's entry in the roster, or nil. It is looked for once in
// each slot, for the roster may be long.
func (m *Machine) me() *chronicle.Member {
	if now := m.version(); m.own.at != now || m.own.id != m.self {
		m.own = ownMember{m.self, now, m.state.Member(m.self)}
	}
	return m.own.member
}
