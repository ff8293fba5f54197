package ipamtest

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// order is what an operator has been told about an address: that nobody gets it, or only one container, in that pool.
type order struct {
	pool chronicle.PoolKey // zero: nothing
	name string            // of the container; empty: nobody
}

// keepBack has an operator on a host exclude some addresses of a pool, keep one for a container, or end that. Operators talk to one
// another, so that there is one of them at a time.
func (c *cluster) keepBack(s *site) {
	p := c.oracle.state.PoolOf(one(c.rnd, c.w.Subnets...))
	if p == nil || c.ordering {
		return
	}
	size := int(p.Ring.Size())
	first := c.addrs[p.CIDR.Addr()] + c.rnd.IntN(size)
	n := min(1+c.rnd.IntN(4), c.addrs[p.CIDR.Addr()]+size-first)
	c.ordering = true
	switch c.rnd.IntN(3) {
	case 0:
		c.endOrder(s, first, n)
	case 1:
		c.order(s, p, first, 1, chronicle.KindKeptForName, one(c.rnd, s.engine.containers...).name)
	default:
		c.order(s, p, first, n, chronicle.KindExcluded, "")
	}
}

// order keeps addresses back. Once the operator has been told so, nobody gets them.
func (c *cluster) order(s *site, p *chronicle.Pool, first, n int, kind chronicle.Kind, name string) {
	key, subnet, before := p.Key, p.CIDR, slices.Clone(c.oracle.use[first:first+n])
	q := &ipam.ReserveRequest{Pool: subnet.String(), First: c.list[first], Last: c.list[first+n-1], Kind: kind, Note: name}
	s.call(q, func(r ipam.Reply, ok bool) {
		c.ordering = false
		now := c.oracle.state.PoolOf(subnet)
		if !ok || r.Err != nil || now == nil || now.Key != key {
			return
		}
		for k, a := range c.list[first : first+n] {
			collides := slices.ContainsFunc(r.Reserving.Collisions, func(no ipam.Collision) bool {
				return no.First.Compare(a) <= 0 && a.Compare(no.Last) <= 0
			})
			i := first + k
			if r := reservationIn(c.oracle.state, subnet, a); collides || c.oracle.unsure[i] || r != nil && r.Kind.Fixed() { // nobody gets it as long as there is the pool
				continue
			}
			if u := c.oracle.use[i]; u.site != 0 && u == before[k] && !c.wasNamed(u.name, name) {
				c.fail("I1", "%v is kept back for %q, while %s on %s uses it", a, name, u.name, c.sites[u.site-1])
			}
			c.oracle.ordered[i] = order{key, name}
		}
	})
}

// endOrder ends what is kept back. An operator who is not told whether that was done relies on these addresses no more.
func (c *cluster) endOrder(s *site, first, n int) {
	clear(c.oracle.ordered[first : first+n])
	kind := one(c.rnd, chronicle.KindExcluded, chronicle.KindKeptForName)
	q := &ipam.UnreserveRequest{First: c.list[first], Last: c.list[first+n-1], Kind: kind}
	s.call(q, func(r ipam.Reply, ok bool) {
		if c.ordering = false; !ok || r.Err != nil {
			for i := first; i < first+n; i++ {
				c.oracle.unsure[i] = true
			}
		}
	})
}

// removePool has an operator on a host remove a pool. Until it is answered operators rely on nothing that is kept back there: it
// goes with the pool. What is kept back later stays, also where the removal is decided later still.
func (c *cluster) removePool(s *site, subnet netip.Prefix) {
	forget := func() {
		for a, i := range c.addrs {
			if subnet.Contains(a) {
				c.oracle.ordered[i] = order{}
			}
		}
	}
	forget()
	s.call(&ipam.PoolRemoval{Pool: subnet.String()}, func(ipam.Reply, bool) { forget() })
}
