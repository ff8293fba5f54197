package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// leastLAN is how many addresses a subnet has that may be a LAN of the hosts.
const leastLAN = 32

// drawLAN returns the subnet on which each host has an address of its own for its whole
// life, as with macvlan, if there is one. It has its own source of randomness, so that
// the other schedules stay what they were.
func drawLAN(seed uint64, subnets []netip.Prefix) (lan netip.Prefix) {
	rnd := rand.New(rand.NewPCG(seed, 0x1a9))
	if rnd.IntN(4) > 0 {
		return netip.Prefix{}
	}
	for _, p := range subnets {
		if p.Addr().Is4() && 1<<(32-p.Bits()) >= leastLAN {
			return p
		}
	}
	return netip.Prefix{}
}

// own returns the host's address on the LAN; the zero one if there is none. The last
// ones belong to hosts, but for those that a network uses.
func (s *site) own() netip.Addr {
	lan := s.c.lan
	if !lan.IsValid() {
		return netip.Addr{}
	}
	if s.lanAddr.IsValid() {
		return s.lanAddr
	}
	size := 1 << (32 - lan.Bits())
	if at := size - 3 - s.index; at > 2 {
		return s.c.list[s.c.addrs[lan.Addr()]:][at]
	}
	return netip.Addr{}
}

// interfaces returns the addresses of the host: those of its bridges, and its own.
func (s *site) interfaces() []netip.Prefix {
	out := s.engine.bridges()
	if own := s.own(); own.IsValid() {
		out = append(out, netip.PrefixFrom(own, s.c.lan.Bits()))
	}
	return out
}

// tellHost has the process read the host's interfaces.
func (s *site) tellHost() {
	s.call(&ipam.HostAddresses{After: s.machine.Mark(s.clock()), Addresses: s.interfaces()}, nil)
}

// toldAfter is how long a process that runs may have been without news of a new address of
// its host, or a grant on its way that is older.
const toldAfter = time.Minute

// toldOwn reports whether the host's process, if there is one, has had the time to hear of
// the address that the host has on the LAN: while it is stopped nobody tells it, and what waits
// for it then comes in any order.
func (s *site) toldOwn() bool { return s.c.now-max(s.roamed, s.stopped) > toldAfter }
