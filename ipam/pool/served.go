package pool

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/space"
)

// Served is what follows from a network and from the pools that there are. An engine names the whole network in each call,
// so it is worked out once.
type Served struct {
	network poolid.Network
	at      uint64     // of which edition of the state
	Pool    *Pool      // nil: nothing is kept here
	Want    addr.Range // the part of the pool that it takes addresses from
	Key     uint32     // what records keep of the network
}

// leastServed and mostServed bound the places in which networks are kept.
const (
	leastServed = 1 << 6
	mostServed  = 1 << 13
	// ways is in how many places, one behind the other, a network may be: those
	// that share all of them take turns, and cost time alone.
	ways = 4
)

// servedPlaces are places for what follows from networks: a power of two, and those behind the last one.
type servedPlaces struct {
	all   []Served
	shift int // which bits of a hash tell the place
	last  *Served
}

func makeServed(n int) servedPlaces {
	all := make([]Served, n+ways-1)
	return servedPlaces{all: all, shift: bits.LeadingZeros64(uint64(n)) + 1, last: &all[0]}
}

// of returns where a network on the pool may be kept. Pools follow one another at even distances, of which all bits are to
// tell.
func (l *servedPlaces) of(cidr netip.Prefix) *[ways]Served {
	const mix = 0x9e3779b97f4a7c15
	b := cidr.Addr().As16()
	n := binary.BigEndian.Uint64(b[:8])*mix + binary.BigEndian.Uint64(b[8:]) + uint64(cidr.Bits())
	n = (n ^ n>>32) * mix
	return (*[ways]Served)(l.all[n>>l.shift:])
}

// makeRoom sees to it that there are two places for each pool, as far as may be. What is kept is dropped with the places,
// and worked out again.
func (s *Pools) makeRoom() {
	had := len(s.served.all) - (ways - 1)
	n := had
	for n < min(2*len(s.all), mostServed) {
		n *= 2
	}
	if n > had {
		s.served = makeServed(n)
	}
}

// ServedBefore returns what is kept of just that network, which so is one that a pool can serve, or nil. It may be of an
// older content of the state, see [Pools.IsCurrent].
func (s *Pools) ServedBefore(n *poolid.Network) *Served {
	if last := s.served.last; last.Pool != nil && last.network == *n {
		return last
	}
	places := s.served.of(n.Pool)
	for i := range places {
		if of := &places[i]; of.Pool != nil && of.network == *n {
			s.served.last = of
			return of
		}
	}
	return nil
}

// IsCurrent reports whether what is kept of a network follows from the state as it is.
func (s *Pools) IsCurrent(of *Served) bool { return of.at == *s.Edition }

// Serving returns the pool of a network, or nil if there is none.
func (s *Pools) Serving(n *poolid.Network) *Pool {
	now := *s.Edition
	if last := s.served.last; last.Pool != nil && last.network.Pool == n.Pool && last.at == now {
		return last.Pool
	}
	places := s.served.of(n.Pool)
	for i := range places {
		if of := &places[i]; of.Pool != nil && of.network.Pool == n.Pool && of.at == now {
			s.served.last = of
			return of.Pool
		}
	}
	return s.On(n.Pool)
}

// Serve keeps what follows from a network, which p serves.
func (s *Pools) Serve(p *Pool, n *poolid.Network) *Served {
	s.makeRoom()
	of := s.ServedBefore(n)
	if of == nil {
		of = s.servedLeast(n)
	}
	*of = Served{network: *n, at: *s.Edition, Pool: p, Want: addr.RangeOf(p.CIDR, n.Range), Key: NetworkKey(n.ID())}
	return of
}

// servedLeast returns a place for a network that is kept nowhere: one with nothing of today if there is one.
func (s *Pools) servedLeast(n *poolid.Network) *Served {
	places := s.served.of(n.Pool)
	for i := range places {
		if of := &places[i]; of.Pool == nil || !s.IsCurrent(of) {
			return of
		}
	}
	return &places[0]
}

// NetworkKey is what a record keeps of the network on which its address was granted. It is never 0, which stands for one
// that is not known.
func NetworkKey(id poolid.ID) uint32 { return uint32(max(space.KeyOf("network", string(id))>>32, 1)) }
