package ipam

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
)

// served is what follows from a network and from the pools that there are. An
// engine names the whole network in each call, so it is worked out once.
type served struct {
	network Network
	at      uint64     // of which edition of the state
	pool    *pool.Pool // nil: nothing is kept here
	want    addr.Range // the part of the pool that it takes addresses from
	key     uint32     // what records keep of the network
}

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
	had := len(m.pools.served.all) - (ways - 1)
	n := had
	for n < min(2*len(m.pools.of), mostServed) {
		n *= 2
	}
	if n > had {
		m.pools.served = makeServed(n)
	}
}

// servedBefore returns what is kept of just that network, which so is one that a pool
// can serve, or nil. It may be of an older content of the state.
func (m *Machine) servedBefore(n *Network) *served {
	if s := m.pools.served.last; s.pool != nil && s.network == *n {
		return s
	}
	places := m.pools.served.of(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool != nil && s.network == *n {
			m.pools.served.last = s
			return s
		}
	}
	return nil
}

// servedPool returns the pool of a network, or nil if there is none.
func (m *Machine) servedPool(n *Network) *pool.Pool {
	now := m.log.Edition()
	if s := m.pools.served.last; s.pool != nil && s.network.Pool == n.Pool && s.at == now {
		return s.pool
	}
	places := m.pools.served.of(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool != nil && s.network.Pool == n.Pool && s.at == now {
			m.pools.served.last = s
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
	*s = served{network: *n, at: m.log.Edition(), pool: p, want: addr.RangeOf(p.CIDR, n.Range), key: networkKey(n.ID())}
	return s, nil
}

// servedLeast returns a place for a network that is kept nowhere: one with nothing
// of today if there is one.
func (m *Machine) servedLeast(n *Network) *served {
	places := m.pools.served.of(n.Pool)
	for i := range places {
		if s := &places[i]; s.pool == nil || s.at != m.log.Edition() {
			return s
		}
	}
	return &places[0]
}
