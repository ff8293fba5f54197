package ipam

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// choosePool makes a pool of a subnet that is free, for a network for which
// the user named none: another one each time, from the universe, overlapping
// neither what is to be avoided nor any pool. When none is left, a pool that
// nobody uses any more makes room.
func (m *Machine) choosePool(v6 bool, q *PoolRequest) (*pool, error) {
	bits := q.Bits
	if bits == 0 {
		bits = m.cfg.Bits4
		if v6 {
			bits = m.cfg.Bits6
		}
	}
	if err := m.awaitLists(); err != nil {
		return nil, err
	}
	universe := m.universe(v6)
	if len(universe) == 0 {
		family := "IPv4"
		if v6 {
			family = "IPv6"
		}
		return nil, failf(ErrNoSubnet, "no %s subnet can be chosen, since RINGLET_UNIVERSE has no %s prefix: name one with --subnet", family, family)
	}
	if p, err := m.chosenBefore(); p != nil || err != nil {
		return p, err
	}
	s := search{universe: universe, bits: bits, after: m.chosen[v6]}
	for _, s.mayReplace = range []bool{false, true} {
		if s.mayReplace {
			if err := m.awaitNetworkList(); err != nil {
				return nil, err
			}
		}
		for cidr, ok := m.nextFree(&s); ok; cidr, ok = m.nextFree(&s) {
			if _, err := checkedSubnet(cidr); err != nil {
				return nil, err
			}
			// Made in any case: whoever names no subnet is to share it with nobody.
			p, used, err := m.makePool(cidr, poolSpec{origin: chronicle.FromChoice, reserved: q})
			if used != nil && m.current != nil && errors.Is(err, ErrPoolInUse) {
				m.current.inUse = append(m.current.inUse, used.CIDR) // another host says so
				continue
			}
			if m.waitsForDecision() {
				m.current.subnet = cidr
			}
			if err == nil || m.waitsForDecision() {
				m.chosen[v6] = cidr.Addr()
			}
			return p, err
		}
	}
	if slices.ContainsFunc(m.sortedPools(), m.mayGoSoon) {
		return nil, waitFor(m.errNoSubnet(bits, universe)) // and its subnet may be chosen again
	}
	if q.PoolName != "" && !m.alone() {
		// Another host may have made one for that name, and be about to name it.
		return nil, waitFor(m.errNoSubnet(bits, universe))
	}
	return nil, m.errNoSubnet(bits, universe)
}

// search is which subnet is looked for.
type search struct {
	universe   []netip.Prefix
	bits       int
	after      netip.Addr // the one that was chosen last
	mayReplace bool       // in the place of pools that nobody uses
}

// chosenBefore returns the pool that was made for the call that is served
// again, or nil if another subnet is to be chosen: somebody else was quicker to
// take the one that was chosen first.
func (m *Machine) chosenBefore() (*pool, error) {
	c := m.current
	if c == nil {
		return nil, nil
	}
	if p := m.pools[c.made]; p != nil || !c.subnet.IsValid() {
		return p, nil
	}
	if m.waitsForDecision() {
		return nil, m.waitForMajority()
	}
	c.subnet = netip.Prefix{}
	return nil, nil
}

// universe returns where subnets of the family are chosen.
func (m *Machine) universe(v6 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, u := range m.cfg.Universe {
		if u.Addr().Is6() == v6 {
			out = append(out, u)
		}
	}
	if v6 && m.cfg.ChooseULA {
		out = append(out, ula(m.state.Cluster))
	}
	return out
}

// ula returns the cluster's own IPv6 /48: a unique local prefix whose global
// ID is the beginning of the cluster's random ID (RFC 4193, 3.2).
func ula(cluster [16]byte) netip.Prefix {
	a := [16]byte{0xfd}
	copy(a[1:6], cluster[:5])
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}

// nextFree returns the first subnet of that length behind the last one
// that is free, beginning again at the start if there is none behind.
func (m *Machine) nextFree(s *search) (netip.Prefix, bool) {
	universe, bits, after := s.universe, s.bits, s.after
	start := 0
	for i, u := range universe {
		if after.IsValid() && u.Contains(after) {
			start = i
		}
	}
	// The universe that after lies in comes first from after on, and again in
	// full at the end.
	for i := range len(universe) + 1 {
		u := universe[(start+i)%len(universe)]
		if bits < u.Bits() {
			continue
		}
		c := netip.PrefixFrom(u.Addr(), bits)
		if i == 0 && after.IsValid() && u.Contains(after) {
			c = following(netip.PrefixFrom(after, bits).Masked(), bits)
		}
		for c.IsValid() && u.Contains(c.Addr()) {
			in := m.inTheWay(c, s)
			if !in.IsValid() {
				return c, true
			}
			c = following(in, bits)
		}
	}
	return netip.Prefix{}, false
}

// inTheWay returns a prefix that keeps the subnet from being chosen, or an
// invalid one if it can be.
func (m *Machine) inTheWay(c netip.Prefix, s *search) netip.Prefix {
	if m.current != nil {
		for _, used := range m.current.inUse {
			if used.Overlaps(c) {
				return widest(used, c)
			}
		}
	}
	for _, a := range m.cfg.Avoid {
		if a.Overlaps(c) {
			return widest(a, c)
		}
	}
	for _, h := range m.host {
		if h = h.Masked(); h.Overlaps(c) && m.poolOf(h) == nil {
			return widest(h, c)
		}
	}
	for _, r := range m.routed {
		if r.Overlaps(c) && m.poolOf(r) == nil {
			return widest(r, c)
		}
	}
	for _, l := range m.listed {
		// One whose pool went since the list is a network that went.
		if serial, gone := m.deleted[l]; l.Overlaps(c) && m.poolOf(l) == nil && (!gone || m.inventory.knows(serial)) {
			return widest(l, c)
		}
	}
	for _, p := range m.state.Overlapping(c) {
		if !s.mayReplace || !m.replaceable(m.pools[p.Key]) {
			return widest(p.CIDR, c)
		}
	}
	return netip.Prefix{}
}

// replaceable reports whether a pool is wanted by nobody any more, as far as is known
// without asking, and all who have a part of it can be asked.
func (m *Machine) replaceable(p *pool) bool {
	wanted := func(id peer.ID) bool {
		return id != m.self && (p.UsedBy(id) || m.state.Member(id) == nil || !m.live(id))
	}
	return m.idle(p) && !slices.ContainsFunc(p.parties(), wanted)
}

func widest(a, b netip.Prefix) netip.Prefix {
	if a.Bits() < b.Bits() {
		return a
	}
	return b
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

// maxChunk is the largest chunk of a pool where none is set.
const maxChunk = 1024

// chunk returns how many addresses are opened at a time in a pool.
func (m *Machine) chunk(p *pool) addr.Count {
	if m.cfg.Chunk > 0 {
		return m.cfg.Chunk
	}
	return min(max(p.space.Size()/addr.Count(8*max(len(m.state.Roster), 1)), 8), maxChunk)
}
