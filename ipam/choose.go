package ipam

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/subnets"
)

// choosePool makes a pool of a subnet that is free, for a network for which
// the user named none: another one each time, from the universe, overlapping
// neither what is to be avoided nor any pool. When none is left, a pool that
// nobody uses any more makes room.
func (m serving) choosePool(v6 bool, q *PoolRequest) (*pool.Pool, error) {
	bits := cmp.Or(q.Bits, m.cfg.Subnets.Bits(v6))
	if err := m.awaitLists(); err != nil {
		return nil, err
	}
	universe := m.cfg.Subnets.In(v6, m.state.Cluster)
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
	s := subnets.Search{Universe: universe, Bits: bits, After: m.calls.chosen[v6]}
	for _, mayReplace := range []bool{false, true} {
		if mayReplace {
			if err := m.awaitNetworkList(); err != nil {
				return nil, err
			}
		}
		inTheWay := func(c netip.Prefix) netip.Prefix { return m.inTheWay(c, mayReplace) }
		for cidr, ok := s.Next(inTheWay); ok; cidr, ok = s.Next(inTheWay) {
			if _, err := checkedSubnet(cidr); err != nil {
				return nil, err
			}
			// Made in any case: whoever names no subnet is to share it with nobody.
			p, used, err := m.makePool(cidr, poolSpec{origin: chronicle.FromChoice, reserved: q})
			if used != nil && errors.Is(err, ErrPoolInUse) {
				m.call.pool.inUse = append(m.call.pool.inUse, used.CIDR) // another host says so
				continue
			}
			if m.waitsForDecision() {
				m.call.pool.subnet = cidr
			}
			if err == nil || m.waitsForDecision() {
				m.calls.chosen[v6] = cidr.Addr()
			}
			return p, err
		}
	}
	none := m.pools.ErrNoSubnet(bits, universe, m.cfg.Subnets.Avoid)
	switch {
	case slices.ContainsFunc(m.pools.Sorted(), (*pool.Pool).MayGoSoon): // and its subnet may be chosen again
		return nil, waitFor(none)
	case q.PoolName != "" && !m.members.View().Alone(): // another host may have made one for that name, and be about to name it
		return nil, waitFor(none)
	}
	return nil, none
}

// chosenBefore returns the pool that was made for the call that is served
// again, or nil if another subnet is to be chosen: somebody else was quicker to
// take the one that was chosen first.
func (m serving) chosenBefore() (*pool.Pool, error) {
	c := m.call
	if p := m.pools.Of(c.pool.made); p != nil || !c.pool.subnet.IsValid() {
		return p, nil
	}
	if m.waitsForDecision() {
		return nil, m.waitForMajority()
	}
	c.pool.subnet = netip.Prefix{}
	return nil, nil
}

// inTheWay returns a prefix that keeps the subnet from being chosen, or an invalid one if it can be. mayReplace says that a
// pool that nobody uses makes room.
func (m serving) inTheWay(c netip.Prefix, mayReplace bool) netip.Prefix {
	for _, used := range m.call.pool.inUse {
		if used.Overlaps(c) {
			return used
		}
	}
	for _, a := range m.cfg.Subnets.Avoid {
		if a.Overlaps(c) {
			return a
		}
	}
	if p := m.pools.InTheWay(c); p.IsValid() {
		return p
	}
	for _, p := range m.state.Overlapping(c) {
		if !mayReplace || !m.replaceable(m.pools.Of(p.Key)) {
			return p.CIDR
		}
	}
	return netip.Prefix{}
}

// replaceable reports whether a pool is wanted by nobody any more, as far as is known
// without asking, and all who have a part of it can be asked.
func (m *Machine) replaceable(p *pool.Pool) bool {
	wanted := func(id peer.ID) bool {
		return id != m.members.Self() && (p.UsedBy(id) || m.state.Member(id) == nil || !m.members.View().Live(id))
	}
	return p.IsIdle() && !slices.ContainsFunc(p.Parties(), wanted)
}
