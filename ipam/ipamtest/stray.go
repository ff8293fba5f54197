package ipamtest

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// A host may be given up with all that it has, and come back. An operator has said that it is gone for good, and
// others may get what it has: so what it uses then is astray, and two may have it. From when its peer has an
// address again, by what was decided, that is nobody else's.

// givenUp takes note that the space of a peer is given up in a slot, whose host is away, maybe with all that it has.
func (o *oracle) givenUp(id peer.ID, slot uint64) {
	s := o.c.bearer(id)
	if s == nil || s.absent == nil {
		return
	}
	v := o.of(s)
	if v.gaveUp = slot; !s.absent.laden {
		return
	}
	v.anyAstray = true
	keep := map[int]int{}
	for _, n := range s.engine.networks {
		n.givenUp = true
		for _, a := range n.keeps() {
			keep[o.c.addrs[a]]++
		}
	}
	for i, n := range keep {
		o.kept[i] -= n - v.unkept[i] // others than those that are astray since it was given up before
		v.unkept[i] = n
		o.c.count["strays of networks"]++
	}
	for i := range o.use {
		switch u := o.use[i]; {
		case u.site == s.index+1:
			v.astray[i], v.strays[i] = true, u.name
			o.use[i] = user{}
			o.c.count["strays"]++
		case v.held[i]:
			v.astray[i] = true
		}
	}
}

// removed takes note that a pool was: whoever removes it ends what holders outside Docker have there on hosts that were
// given up, as nobody knows of that any more, nor of the gateways of their networks (docs/limits.md).
func (o *oracle) removed(key chronicle.PoolKey, h *history) {
	for j := range o.sites {
		s := o.c.sites[j]
		for _, n := range s.engine.networks {
			n.removed = n.removed || n.Pool == h.subnets[key]
		}
		for _, x := range s.engine.clients {
			if h.subnets[key].Contains(x.address) && o.sites[j].strays[o.c.addrs[x.address]] == x.name {
				o.leaves(s, x.address, x.name)
				x.address = netip.Addr{}
			}
		}
	}
}

// regain takes note of what hosts have again that was astray.
func (o *oracle) regain() {
	for j := range o.sites {
		v, s := &o.sites[j], o.c.sites[j]
		if !v.anyAstray {
			continue
		}
		for _, p := range o.state.Pools {
			o.keepAgain(s, v, p)
			first := o.c.addrs[p.CIDR.Addr()]
			for r := range p.Ring.OwnedBy(s.id) {
				for i := first + int(r.Start); i < first+int(r.End); i++ {
					if v.astray[i] || v.unkept[i] > 0 {
						o.found(s, v, i)
					}
				}
			}
		}
		v.anyAstray = slices.Contains(v.astray, true) || v.hasStrays()
	}
}

// hasStrays reports whether anybody on the host uses what is astray.
func (v *sights) hasStrays() bool {
	return slices.ContainsFunc(v.strays, func(name string) bool { return name != "" }) || slices.ContainsFunc(v.unkept, func(n int) bool { return n > 0 })
}

// keepAgain takes note of what networks of a host keep back again: it says that it uses the pool, and that is reserved.
func (o *oracle) keepAgain(s *site, v *sights, p *chronicle.Pool) {
	if !p.UsedBy(s.id) {
		return
	}
	for _, r := range p.Reserved {
		if !r.Kind.Shared() {
			continue
		}
		i := o.c.addrs[p.CIDR.Addr()] + int(r.Range.Start)
		if v.unkept[i] > 0 {
			o.c.count["strays of networks that are had again"]++
		}
		o.kept[i] += v.unkept[i]
		v.unkept[i] = 0
	}
}

// keeps returns what the network keeps back on all hosts.
func (n *network) keeps() []netip.Addr {
	if !n.typed.IsValid() {
		return n.aux
	}
	return append([]netip.Addr{n.typed}, n.aux...)
}

// found takes note that a host has an address again.
func (o *oracle) found(s *site, v *sights, i int) {
	v.astray[i] = false
	for _, n := range s.engine.networks {
		n.givenUp = n.givenUp && n.gateway != o.c.list[i]
	}
	o.kept[i] += v.unkept[i] // a gateway that was named, and is the host's own
	v.unkept[i] = 0
	if v.held[i] {
		defer o.alone(s, i, "has again")
	}
	if v.strays[i] == "" {
		return
	}
	if u := o.use[i]; u.site != 0 {
		o.c.fail("I1", "%s has %v again, which %s on %s uses", s, o.c.list[i], u.name, o.c.sites[u.site-1])
	}
	o.use[i] = user{s.index + 1, v.strays[i]}
	v.strays[i] = ""
	o.c.count["strays that are had again"]++
}

// heldAstray counts what a host's peer holds of a pool that is somebody else's.
func (o *oracle) heldAstray(s *site, p *chronicle.Pool) (n uint64) {
	v, first := o.of(s), o.c.addrs[p.CIDR.Addr()]
	for i := first; i < first+int(p.Ring.Size()); i++ {
		if v.astray[i] && v.held[i] {
			n++
		}
	}
	return n
}

// laden reports whether the host may be given up with all that it has: nobody is asked anything, and the others do without
// it. Without lists nobody could tell, once its pools are removed, what it has (docs/limits.md).
func (s *site) laden() bool {
	c, e := s.c, &s.engine
	if len(s.calls) > 0 || len(e.left) > 0 || len(s.lockers) > 0 || s.leaving || s.batch.pending || s.stopped > c.now || !s.cfg.AwaitInventory ||
		s.machine.AwaitsLists() || c.oracle.state.Member(s.id) == nil || !c.goesOn(s, s) || e.asking() || e.starting {
		return false
	}
	return !slices.ContainsFunc(e.networks, func(n *network) bool { return !n.ready }) && !slices.ContainsFunc(e.clients, func(x *client) bool { return x.busy })
}

// settleStrays looks whether hosts that are back have again what nobody else has got, and has users remove what is on
// those where two have something.
func (c *cluster) settleStrays() {
	for i := range c.oracle.sites {
		s, v := c.sites[i], &c.oracle.sites[i]
		if s.machine == nil || c.breach != nil || c.oracle.state.Member(s.id) == nil {
			continue
		}
		for k, name := range v.strays {
			if (name != "" || v.unkept[k] > 0) && c.isNobodys(s, k) {
				c.fail("stray", "%s does not have %v again, which %q on it uses, or %d networks, and nobody else: %v", s, c.list[k], name, v.unkept[k], s.machine.Status(s.clock()).Problems)
			}
		}
	}
	for _, s := range c.sites {
		if s.machine == nil || !c.oracle.of(s).hasStrays() {
			continue
		}
		c.count["strays removed"]++
		s.clear()
		c.pass(10 * time.Second)
		for _, n := range slices.Clone(s.engine.networks) {
			s.engine.remove(n)
		}
		c.pass(10 * time.Second)
		for range 3 {
			s.engine.look(s.engine.life)
			c.pass(30 * time.Second)
		}
	}
}

// clearStrays has users stop all that is on hosts on which something is astray.
func (c *cluster) clearStrays() {
	for i := range c.oracle.sites {
		if s := c.sites[i]; s.absent == nil && s.machine != nil && c.oracle.sites[i].hasStrays() {
			s.clear()
		}
	}
}

// isNobodys reports whether an address, by its number, is neither used, held nor kept back on another host than this, nor in
// a pool that overlaps its network's.
func (c *cluster) isNobodys(s *site, k int) bool {
	a := c.list[k]
	if c.oracle.use[k].site != 0 {
		return false
	}
	for _, p := range c.oracle.state.Pools {
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			continue
		}
		if slices.ContainsFunc(s.engine.networks, func(n *network) bool { return n.Pool != p.CIDR && n.Pool.Contains(a) }) {
			return false // status tells that its network has no pool, as this one overlaps it
		}
		t, _ := p.Ring.At(o)
		if r := p.ReservationAt(o); r != nil && r.Kind != chronicle.KindKeptForName || c.heldBeside(p, o, s.index) {
			return false
		}
		return t.Owner == s.id || c.siteOf(t.Owner) != nil && c.oracle.state.Member(t.Owner) != nil || t.Owner == ring.Free
	}
	return false
}
