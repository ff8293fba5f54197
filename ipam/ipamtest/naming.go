package ipamtest

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/ring"
)

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

// noConflict looks whether a peer says that two have what one has. Where space was given up two may, and where a host has just got an
// address on its LAN.
func (c *cluster) noConflict() {
	if c.count["Forget"] > 0 || c.w.Roams > 0 {
		return
	}
	for s := range c.running() {
		for _, p := range s.machine.Status(s.clock()).Problems {
			// A pool that it has not was made while the engine answered nothing, and taken for one that it has.
			if made := c.count["blind"] > 0 && strings.Contains(p.Text, "has no pool"); p.Code == "conflict" && s.cfg.AwaitInventory && !made && !c.twoHave(s, p.Text) {
				c.fail("told", "%s says at rest: %s", s, p.Text)
			}
		}
	}
}

// twoHave reports whether it is true of a host that it has, as a text says, what another one has: a network that was made while the engine
// started was granted that before it could be reserved, and the first list shows the conflict (docs/protocol.md, section 12).
func (c *cluster) twoHave(s *site, text string) bool {
	return slices.ContainsFunc(s.engine.networks, func(n *network) bool {
		return n.givenUp && slices.ContainsFunc(n.keeps(), func(a netip.Addr) bool {
			return strings.HasPrefix(text, a.String()+" ") && c.oracle.heldBeside(a, s.index)
		})
	})
}

// nobodys returns an address of a pool that is free, or what another host has itself and a network may name. It is invalid if none
// was drawn.
func (c *cluster) nobodys(s *site, pool netip.Prefix, purpose ipam.Purpose) netip.Addr {
	p := c.oracle.state.PoolOf(pool)
	if p == nil {
		return netip.Addr{}
	}
	for range 20 {
		o := addr.Offset(c.rnd.Uint64N(uint64(p.Ring.Size())))
		a := addr.Nth(pool, o)
		owner := slices.IndexFunc(c.sites, func(t *site) bool { return t.own() == a })
		gateway := slices.ContainsFunc(c.sites, func(t *site) bool { return t.machine != nil && t.whoHas(a).State == "gateway" })
		t, _ := p.Ring.At(o)
		switch {
		case owner >= 0 && (purpose == ipam.ForContainer || a == s.own()):
		case gateway: // of the networks there, and kept for the next one
		case p.ReservationAt(o) != nil || t.Owner != ring.Free && (c.siteOf(t.Owner) == nil || c.oracle.state.Member(t.Owner) == nil):
		case c.oracle.heldBeside(a, owner) || c.oracle.use[c.addrs[a]].site != 0: // also by one without lists, whose container went unnoticed
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
	case c.breach != nil:
	case r.Err != nil:
		c.fail("refused", "%s is refused %v, which nobody has, for purpose %d: %v", s, a, purpose, r.Err)
	case purpose == ipam.ForContainer:
		c.ask(s, &ipam.AddressRelease{Network: n, Address: a})
	case !c.oracle.keepsBack(n.Pool, a):
		c.fail("refused", "%s is granted %v for a network, and it is not kept back", s, a)
	}
}
