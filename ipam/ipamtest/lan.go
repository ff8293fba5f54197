package ipamtest

import (
	"net/netip"
	"slices"
	"time"
)

// own returns the host's address on the LAN; the zero one if there is none. The last ones belong to hosts, but for those that a
// network uses.
func (s *site) own() netip.Addr {
	lan := s.c.w.LAN
	if !lan.IsValid() || s.lanAddr.IsValid() {
		return s.lanAddr
	}
	if at := sizeOf(lan) - 3 - s.index; at > 2 {
		return s.c.list[s.c.addrs[lan.Addr()]:][at]
	}
	return netip.Addr{}
}

// toldOwn reports whether the host's process, if there is one, has had the time to hear of the address that the host has on the
// LAN, or of a grant on its way that is older: while it is stopped nobody tells it, and what waits for it then comes in any order.
func (s *site) toldOwn() bool { return s.c.now-max(s.roamed, s.stopped) > time.Minute }

// roam gives a host another address on its LAN, one that no other has.
func (c *cluster) roam() {
	s := one(c.rnd, c.sites...)
	a := c.list[c.addrs[c.w.LAN.Addr()]:][sizeOf(c.w.LAN)-3-c.rnd.IntN(12)]
	if slices.ContainsFunc(c.sites, func(t *site) bool { return t.own() == a }) || s.dead || s.machine == nil {
		return
	}
	if u := c.oracle.use[c.addrs[a]]; u.site != 0 {
		return // its DHCP server asks first whether a device has it (RFC 2131, 4.4.1)
	}
	if st := s.whoHas(a); st.State == "gateway" || st.State == "held" && st.Kind == "client" {
		return // its peer keeps both: the next network has the gateway again, and a client may have got it for an interface
	}
	c.tracef("%s has %v on the LAN now, no more %v", s, a, s.own())
	s.lanAddr, s.roamed = a, c.now
}
