package subnets

import (
	"cmp"
	"net/netip"
	"slices"
)

// Plan is which subnets are chosen for networks that name none. The zero value of a field with a default means the default.
type Plan struct {
	Universe []netip.Prefix // where; default 10.32.0.0/12
	// ULA adds to the universe an IPv6 /48 that follows from the cluster's ID (RFC 4193).
	ULA   bool
	Bits4 int            // prefix length of an IPv4 subnet; default 24
	Bits6 int            // prefix length of an IPv6 subnet; default 64
	Avoid []netip.Prefix // never chosen, nor anything that overlaps them
}

// WithDefaults returns the plan with its defaults, and with lists of its own.
func (p Plan) WithDefaults() Plan {
	p.Bits4, p.Bits6 = cmp.Or(p.Bits4, 24), cmp.Or(p.Bits6, 64)
	if len(p.Universe) == 0 {
		p.Universe = []netip.Prefix{netip.MustParsePrefix("10.32.0.0/12")}
	}
	p.Universe, p.Avoid = slices.Clone(p.Universe), slices.Clone(p.Avoid)
	return p
}

// Bits returns the prefix length of a subnet of a family.
func (p Plan) Bits(v6 bool) int {
	if v6 {
		return p.Bits6
	}
	return p.Bits4
}

// In returns the part of the universe that is of a family, for the cluster of that ID.
func (p Plan) In(v6 bool, cluster [16]byte) []netip.Prefix {
	var out []netip.Prefix
	for _, u := range p.Universe {
		if u.Addr().Is6() == v6 {
			out = append(out, u)
		}
	}
	if v6 && p.ULA {
		out = append(out, ULA(cluster))
	}
	return out
}

// Search is which subnet is looked for.
type Search struct {
	Universe []netip.Prefix // where; not empty
	Bits     int            // the length of its prefix
	After    netip.Addr     // the one that was chosen last; invalid: none was
}

// Next returns the first free subnet behind the one that was chosen last, beginning again at the start if there is none
// behind. inTheWay returns a prefix that overlaps a subnet and keeps it from being chosen, or an invalid one if the subnet
// is free.
func (s Search) Next(inTheWay func(netip.Prefix) netip.Prefix) (netip.Prefix, bool) {
	start := 0
	for i, u := range s.Universe {
		if s.After.IsValid() && u.Contains(s.After) {
			start = i
		}
	}
	// The part of the universe with the last one comes first, from that on, and again in full at the end.
	for i := range len(s.Universe) + 1 {
		u := s.Universe[(start+i)%len(s.Universe)]
		if s.Bits < u.Bits() {
			continue
		}
		c := netip.PrefixFrom(u.Addr(), s.Bits)
		if i == 0 && s.After.IsValid() && u.Contains(s.After) {
			c = following(netip.PrefixFrom(s.After, s.Bits).Masked(), s.Bits)
		}
		for c.IsValid() && u.Contains(c.Addr()) {
			in := inTheWay(c)
			if !in.IsValid() {
				return c, true
			}
			if in.Bits() > c.Bits() {
				in = c
			}
			c = following(in, s.Bits)
		}
	}
	return netip.Prefix{}, false
}

// following returns the first subnet of that length behind p, or an invalid
// prefix behind the last address.
func following(p netip.Prefix, bits int) netip.Prefix {
	last := p.Masked().Addr().As16()
	host := p.Addr().BitLen() - p.Bits()
	for i := 15; host > 0; i-- {
		n := min(host, 8)
		last[i] |= byte(1<<n - 1)
		host -= n
	}
	next := netip.AddrFrom16(last)
	if p.Addr().Is4() {
		next = next.Unmap()
	}
	next = next.Next()
	if !next.IsValid() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(next, bits)
}

// ULA returns the cluster's own IPv6 /48: a unique local prefix whose global
// ID is the beginning of the cluster's random ID (RFC 4193, 3.2).
func ULA(cluster [16]byte) netip.Prefix {
	a := [16]byte{0xfd}
	copy(a[1:6], cluster[:5])
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}
