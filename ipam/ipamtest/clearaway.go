package ipamtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/ring"
)

// clearAway has users remove all that there is, some of it while the plugin does not hear it, and operators end what they keep
// back. Once the engines have listed that they have nothing, nothing may be taken any more: no address is held or kept back, no
// host says that it uses a pool, no subnet that was chosen is one, and all pools can be removed.
func (c *cluster) clearAway() {
	if c.breach != nil || slices.ContainsFunc(c.sites, func(s *site) bool { return !s.cfg.AwaitInventory }) {
		return // without lists nobody tells of a release that was lost
	}
	c.tracef("all is removed")
	c.emptyEngines()
	c.endOrders()
	c.pass(30 * time.Second) // what was kept back may be a host's own
	for _, s := range c.sites {
		// Who has left by force is given up, with its host.
		if !s.dead && s.forced && c.oracle.state.Member(s.id) == nil {
			s.end()
		}
	}
	c.buryTheDead()
	for _, g := range slices.Clone(c.oracle.state.Former) {
		if s, at := c.hostOf(g.ID), c.anyPeer(); s != nil && at != nil && s.leaving && s.id != g.ID {
			c.ask(at, &ipam.ForgetRequest{Peer: g.ID.String()}) // nobody is left who would take over
		}
	}
	end := c.now + 15*time.Minute
	for c.breach == nil && c.taken() != "" && c.now < end {
		c.lookAll(1, 30*time.Second)
	}
	if what := c.taken(); what != "" {
		c.fail("leak", "nobody has anything any more, and %s", what)
	}
	for s := range c.running() {
		if c.oracle.state.Member(s.id) != nil && s.machine.AwaitsLists() {
			c.fail("liveness", "%s waits for lists for good: %v", s, s.machine.Status(s.clock()).Problems)
		}
	}
	if !slices.ContainsFunc(c.oracle.state.Pools, func(p *chronicle.Pool) bool {
		return slices.ContainsFunc(p.Reserved, func(r chronicle.Reservation) bool { return r.Kind.Shared() })
	}) {
		c.takeAll()
	}
	c.removePools()
}

// emptyEngines has users remove all containers, then all networks, some of them while the plugin does not hear it.
func (c *cluster) emptyEngines() {
	for _, s := range c.sites {
		for _, x := range s.engine.containers {
			switch {
			case x.busy || !x.running:
			case c.rnd.IntN(3) > 0:
				s.engine.stop(x)
			default:
				s.engine.ended(x)
				s.engine.off(x)
			}
		}
	}
	c.pass(30 * time.Second)
	for _, s := range c.sites {
		e := &s.engine
		for _, n := range slices.Clone(e.networks) {
			switch {
			case !n.ready || n.users > 0:
				c.fail("test", "%s has a network that cannot be removed: %+v, %+v", s, n, e.containers)
			case c.rnd.IntN(3) > 0:
				e.giveBack(n)
			default:
				e.lose(n)
			}
		}
	}
	c.pass(30 * time.Second)
}

// endOrders ends what operators keep back.
func (c *cluster) endOrders() {
	at := c.anyPeer()
	if at == nil {
		return
	}
	for _, p := range slices.Clone(c.oracle.state.Pools) {
		first := c.addrs[p.CIDR.Addr()]
		last := first + int(p.Ring.Size()) - 1
		for _, kind := range []chronicle.Kind{chronicle.KindExcluded, chronicle.KindKeptForName} {
			q := &ipam.UnreserveRequest{Pool: p.CIDR.String(), First: c.list[first], Last: c.list[last], Kind: kind}
			if r := c.ask(at, q); r.Err != nil && c.oracle.state.PoolOf(p.CIDR) != nil {
				c.fail("leak", "what is kept back in %v cannot be ended on %s: %v", p.CIDR, at, r.Err)
			}
		}
	}
	clear(c.oracle.ordered)
}

// taken says what of all is taken although nobody has it; empty if nothing is.
func (c *cluster) taken() string {
	for s := range c.running() {
		for k, held := range s.held {
			if held && c.list[k] != s.own() {
				return fmt.Sprintf("%v is held on %s: %+v", c.list[k], s, s.whoHas(c.list[k]))
			}
		}
		if networks := s.machine.Status(s.clock()).Networks; len(networks) > 0 {
			return fmt.Sprintf("%s counts networks: %+v", s, networks)
		}
	}
	if what := c.quarantined(func(*site) bool { return false }); what != "" {
		return what
	}
	for _, p := range c.oracle.state.Pools {
		if len(p.Users) > 0 {
			return fmt.Sprintf("%v is used by %v", p.CIDR, p.Users)
		}
		if p.Origin == chronicle.FromChoice && p.Name == "" {
			return fmt.Sprintf("%v was chosen, and is a pool still", p.CIDR)
		}
		for _, r := range p.Reserved {
			if r.Kind.Shared() && c.count["Forget"] > 0 {
				continue // a host that was forgotten may be back, and name it
			}
			if !r.Kind.Fixed() {
				return fmt.Sprintf("%v of %v is kept back as %v (%q)", r.Range, p.CIDR, r.Kind, r.Note)
			}
		}
	}
	return ""
}

// removePools has operators remove all pools, and looks whether anything of them is left on a disk.
func (c *cluster) removePools() {
	for _, p := range slices.Clone(c.oracle.state.Pools) {
		at := c.anyPeer()
		if at == nil || c.breach != nil {
			return
		}
		err := c.ask(at, &ipam.PoolRemoval{Pool: p.CIDR.String()}).Err
		for tries := 1; err != nil && c.oracle.state.PoolOf(p.CIDR) != nil; tries++ {
			if tries == 3 {
				c.fail("leak", "nobody has anything any more, and %v cannot be removed on %s: %v", p.CIDR, at, err)
				break
			}
			c.pass(30 * time.Second) // the others have taken no note yet of what is gone
			err = c.ask(at, &ipam.PoolRemoval{Pool: p.CIDR.String()}).Err
		}
	}
	if !c.wait(time.Minute, c.agreed) {
		c.fail("liveness", "a minute after all pools were removed the peers do not agree: %s", c.standing())
	}
	c.pass(10 * time.Second) // what was committed together is on the disks
	for s := range c.running() {
		for k := range s.disk {
			if bucket, key := machinetest.Split(k); bucket == "holding" || bucket == "network" || bucket == "chronicle" && strings.HasPrefix(key, "\x03") {
				c.fail("leak", "there is no pool any more, and %s has %q of %s on its disk", s, key, bucket)
			}
		}
	}
}

// nameSome has users of each host make a network, now that all is quiet, and name addresses that nobody has: as that of a
// container, as the network's router, and as auxiliary. None may be refused; what the network names is kept back until it goes.
func (c *cluster) nameSome() {
	for s := range c.members() {
		if !s.cfg.AwaitInventory || s.cfg.NoMAC || len(c.oracle.state.Pools) == 0 {
			continue // its lists do not tell what addresses are for
		}
		pool := one(c.rnd, c.oracle.state.Pools...).CIDR
		r := c.ask(s, &ipam.PoolRequest{Space: ipam.Local, Pool: pool, Gateway: ipam.GatewayNone})
		if r.Err != nil {
			c.fail("refused", "%s is refused a network on %v: %v", s, pool, r.Err)
			return
		}
		n := r.Pool.Network
		for _, purpose := range []ipam.Purpose{ipam.ForContainer, ipam.ForGateway, ipam.ForUnmarked} {
			if a := c.nobodys(s, pool, purpose); a.IsValid() && c.breach == nil {
				c.name(s, n, a, purpose)
			}
		}
		c.ask(s, &ipam.PoolRelease{Network: n})
		c.pass(5 * time.Second) // what the network named is free again, and all hear of that
		c.wait(time.Minute, c.agreed)
	}
	c.lookAll(3, time.Minute) // lists end what no network names any more
	c.noLeak()
}

// noConflict looks whether a peer goes on saying that two have what one has. What is over is told until the next list, which comes
// within a minute. Where space was given up two may have an address, and where a host has just got one on its LAN.
func (c *cluster) noConflict() {
	if c.count["Forget"] > 0 || c.w.Roams > 0 {
		return
	}
	told := ""
	if !c.wait(90*time.Second, func() bool { told = c.falseConflict(); return told == "" }) {
		c.fail("told", "%s", told)
	}
}

// falseConflict returns what a peer says of two that have an address which one has; empty if none does.
func (c *cluster) falseConflict() string {
	for s := range c.running() {
		for _, p := range s.machine.Status(s.clock()).Problems {
			// A pool that it has not was made while the engine answered nothing, and taken for one that it has.
			made := c.count["blind"] > 0 && strings.Contains(p.Text, "has no pool")
			if p.Code == "conflict" && s.cfg.AwaitInventory && !made && !c.twoHave(s, p.Text) {
				return fmt.Sprintf("%s says at rest: %s", s, p.Text)
			}
		}
	}
	return ""
}

// twoHave reports whether it is true of a host that it has, as a text says, what another one has: a network that was made while the engine
// started was granted that before it could be reserved, and the first list shows the conflict (docs/protocol.md, section 12).
func (c *cluster) twoHave(s *site, text string) bool {
	return slices.ContainsFunc(s.engine.networks, func(n *network) bool {
		return n.givenUp && slices.ContainsFunc(n.keeps(), func(a netip.Addr) bool {
			return strings.HasPrefix(text, a.String()+" ") && c.oracle.heldBeside(a, s)
		})
	})
}

// nobodys returns an address of a pool that is free, or what another host has itself and a network may name. It is invalid if none
// was drawn.
func (c *cluster) nobodys(s *site, pool netip.Prefix, purpose ipam.Purpose) netip.Addr {
	p := c.oracle.state.PoolOf(pool)
	for range 20 {
		o := addr.Offset(c.rnd.Uint64N(uint64(p.Ring.Size())))
		a := addr.Nth(pool, o)
		owner := c.find(func(t *site) bool { return t.own() == a })
		gateway := slices.ContainsFunc(c.sites, func(t *site) bool { return t.machine != nil && t.whoHas(a).State == "gateway" })
		t, _ := p.Ring.At(o)
		switch {
		case owner != nil && (purpose == ipam.ForContainer || a == s.own()):
		case gateway: // of the networks there, and kept for the next one
		case p.ReservationAt(o) != nil || t.Owner != ring.Free && (c.siteOf(t.Owner) == nil || c.oracle.state.Member(t.Owner) == nil):
		case c.oracle.heldBeside(a, owner) || c.oracle.use[c.addrs[a]].on != nil: // also by one without lists, whose container went unnoticed
		default:
			return a
		}
	}
	return netip.Addr{}
}

// name has the engine ask for the address.
func (c *cluster) name(s *site, n ipam.Network, a netip.Addr, purpose ipam.Purpose) {
	q := &ipam.AddressRequest{Network: n, Purpose: purpose, Address: a}
	if purpose == ipam.ForContainer {
		q.Name, q.MAC = "newcomer", ipam.MAC{2, 9, byte(s.index)}
	}
	switch r := c.ask(s, q); {
	case r.Err != nil:
		c.fail("refused", "%s is refused %v, which nobody has, for purpose %d: %v", s, a, purpose, r.Err)
	case purpose == ipam.ForContainer:
		c.ask(s, &ipam.AddressRelease{Network: n, Address: a})
	case !c.oracle.keepsBack(n.Pool, a):
		c.fail("refused", "%s is granted %v for a network, and it is not kept back", s, a)
	}
}
