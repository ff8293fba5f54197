package ipamtest

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
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
			if r := reservationIn(c.oracle.state, subnet, a); collides || c.oracle.unsure[i] || r != nil && r.Kind.Fixed() {
				continue // of a fixed one: nobody gets it as long as there is the pool
			}
			if u := c.oracle.use[i]; u.on != nil && u == before[k] && !c.wasNamed(u.name, name) {
				c.fail("I1", "%v is kept back for %q, while %s on %s uses it", a, name, u.name, u.on)
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

// What networks keep back on all hosts, as far as anybody knows.

// gatewayUse begins the name of a gateway as the user of an address.
const gatewayUse = "gateway of "

func (n *network) gatewayUser() string { return gatewayUse + n.Pool.String() }

// keeps returns what the network keeps back on all hosts.
func (n *network) keeps() []netip.Addr {
	if !n.typed.IsValid() {
		return n.aux
	}
	return append([]netip.Addr{n.typed}, n.aux...)
}

// reservationIn returns the reservation of an address, or nil.
func reservationIn(state *chronicle.State, pool netip.Prefix, a netip.Addr) *chronicle.Reservation {
	p := state.PoolOf(pool)
	o, ok := addr.OffsetOf(pool, a)
	if !ok || p == nil {
		return nil
	}
	return p.ReservationAt(o)
}

// keepsBack reports whether an address is reserved for networks by the last slot that anybody knows.
func (o *oracle) keepsBack(pool netip.Prefix, a netip.Addr) bool {
	r := reservationIn(o.state, pool, a)
	return r != nil && r.Kind.Shared()
}

// keepsAll reports whether by the last slot that anybody knows a host uses the pool of a network, and all that this keeps back is
// reserved. What is reserved for other hosts alone ends with their networks.
func (o *oracle) keepsAll(s *site, n *network) bool {
	p := o.state.PoolOf(n.Pool)
	lacks := func(a netip.Addr) bool { return !o.keepsBack(n.Pool, a) }
	return p != nil && p.UsedBy(s.id) && !slices.ContainsFunc(n.keeps(), lacks)
}

// taken reports whether a network was taken for one that an engine has which starts: what it keeps back is reserved when the engine
// has listed it, or the list shows the conflict (docs/protocol.md, section 12). A peer with a new database may hold it until then.
func (o *oracle) taken(e *engine, n *network) bool {
	return e.s.cfg.AwaitInventory && e.lists == e.unlisted && !o.keepsAll(e.s, n) && (e.s.isNew() || !e.s.holds(n.typed))
}

// keeps takes note that a network keeps an address back from now on. One whose host was given up as it was made does not, before
// that is reserved again.
func (o *oracle) keeps(n *network, a netip.Addr) {
	if !n.givenUp {
		o.kept[o.c.addrs[a]]++
	}
}

// drops takes note that a network keeps nothing back any more.
func (o *oracle) drops(n *network) {
	for _, a := range n.keeps() {
		if !n.givenUp {
			o.kept[o.c.addrs[a]]--
		}
	}
}

// keepAgain takes note of networks of hosts that started over for which all that they keep back is reserved again.
func (o *oracle) keepAgain() {
	for _, s := range o.c.sites {
		for _, n := range s.engine.networks {
			if !n.givenUp || s.outside || !o.keepsAll(s, n) {
				continue
			}
			n.givenUp = false
			for _, a := range n.keeps() {
				o.keeps(n, a)
			}
		}
	}
}
