package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// leastLAN is how many addresses a subnet has that may be a LAN of the hosts.
const leastLAN = 32

// drawLAN returns the subnet on which each host has an address of its own for its whole life, as with macvlan, if there is one. It
// has its own source of randomness, so that the other schedules stay what they were.
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

// own returns the host's address on the LAN; the zero one if there is none. The last ones belong to hosts, but for those that a
// network uses.
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

// toldAfter is how long a process that runs may have been without news of a new address of its host, or a grant on its way that is
// older.
const toldAfter = time.Minute

// toldOwn reports whether the host's process, if there is one, has had the time to hear of the address that the host has on the
// LAN: while it is stopped nobody tells it, and what waits for it then comes in any order.
func (s *site) toldOwn() bool { return s.c.now-max(s.roamed, s.stopped) > toldAfter }

// roam gives hosts other addresses on their LAN, again and again: the one gets one that no other has.
func (c *cluster) roam() {
	if c.customs.roams == 0 || !c.lan.IsValid() {
		return
	}
	c.after(time.Duration(c.customs.rnd.ExpFloat64()*float64(c.customs.roams)), func() {
		if c.calm {
			return
		}
		c.roam()
		s, size := one(c.customs.rnd, c.sites...), 1<<(32-c.lan.Bits())
		at := size - 3 - c.customs.rnd.IntN(12)
		a := c.list[c.addrs[c.lan.Addr()]:][at]
		if slices.ContainsFunc(c.sites, func(t *site) bool { return t.own() == a }) || s.dead {
			return
		}
		if u := c.oracle.use[c.addrs[a]]; u.site != 0 {
			return // whoever is to get it looks whether somebody has it (RFC 2131, 4.4.1)
		}
		if s.machine == nil {
			return
		}
		if st := s.whoHas(a); st.State == "gateway" || st.State == "held" && st.Kind == "client" {
			return // its peer keeps both: the next network has the gateway again, and a client may have got it for an interface
		}
		c.count["roamed"]++
		c.tracef("%s has %v on the LAN now, no more %v", s, a, s.own())
		s.lanAddr, s.roamed = a, c.now
	})
}
