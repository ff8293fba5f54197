package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A network names an auxiliary address, or a gateway, in the space of another host, which is
// asked for it and cannot have that decided before the network is given up. Once it is decided
// no host has a network on the pool, and none keeps the address back.
func TestKeptBackForANetworkThatIsNoMore(t *testing.T) {
	for _, purpose := range []ipam.Purpose{ipam.ForUnmarked, ipam.ForGateway} {
		for _, off := range []bool{false, true} {
			c := newLockstep(t, 3)
			c.run(time.Minute, c.agreed)
			order := c.order()
			maker, owner := order[0], order[2]
			cidr := prefix("10.60.0.0/24")
			if err := c.ask(0, &ipam.PoolCreation{CIDR: cidr}).Err; err != nil {
				t.Fatal(err)
			}
			c.wait(5 * time.Second)
			at := c.ask(owner, docker(cidr)).Address.Address.Addr() // in its space
			c.ask(owner, &ipam.AddressRelease{Network: local(cidr), Address: at})
			n := c.ask(maker, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayNone}).Pool.Network
			c.wait(5 * time.Second)
			c.lose = func(f flight) bool { return f.from == owner }
			err := c.ask(maker, &ipam.AddressRequest{Network: n, Purpose: purpose, Address: at}).Err
			if err == nil {
				t.Fatal("the owner was not needed")
			}
			c.ask(maker, &ipam.PoolRelease{Network: n})
			if off {
				c.die(owner)
			}
			c.wait(5 * time.Minute)
			c.lose = func(flight) bool { return false }
			if off {
				c.start(owner)
				c.heal()
			}
			c.wait(10 * time.Minute)
			if err := c.ip(owner, cidr, at); err != nil {
				t.Errorf("purpose %d, off %t: no host has a network: %v", purpose, off, err)
			}
			c.check()
		}
	}
}

// A host is given up, and restored from an image of its disk without the plugin's data. Its
// engine asks for the endpoints that the image has, as after a loss of power or of the engine alone,
// and lets go of them, or not before they end.
func TestEndpointsOfARestoredHost(t *testing.T) {
	for i := range 4 {
		blind, lives := i&1 > 0, i&2 > 0
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for i, p := range c.peers {
				p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
			}
		})
		c.run(time.Minute, c.agreed)
		cidr := prefix("10.60.0.0/24")
		made := map[int]bool{}
		lists := func(endpoints ...ipam.InventoryEndpoint) {
			for i := range c.peers {
				l := &ipam.Inventory{}
				if n := on(cidr.String()); made[i] {
					if i == 2 {
						n.Endpoints = endpoints
					}
					l.Networks = []ipam.InventoryNetwork{n}
				}
				if !c.dead[i] {
					c.call(i, l)
				}
			}
			c.wait(30 * time.Second)
		}
		lists()
		for _, i := range []int{0, 2} {
			c.network(i, cidr)
			made[i] = true
		}
		at := c.ask(2, docker(cidr)).Address.Address.Addr()
		lists(listed(at.String(), "web", 7))
		c.die(2)
		c.giveUp(0, 2)
		c.dead = nil
		c.rebuild(2)
		c.ask(2, &ipam.Greeting{})
		c.run(time.Minute, c.agreed)
		if blind {
			c.ask(2, &ipam.Blindness{})
			c.wait(15 * time.Second)
		}
		n := c.ask(2, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst})
		if n.Err != nil {
			t.Fatal(n.Err)
		}
		r := c.ask(2, &ipam.AddressRequest{Network: n.Pool.Network, Purpose: ipam.ForUnmarked, Address: at})
		if r.Err != nil {
			t.Errorf("what it has is refused: %v", r.Err)
		}
		if lives {
			for range 3 {
				lists(listed(at.String(), "web", 7))
			}
			for _, p := range c.status(2).Problems {
				t.Errorf("blind %t: the container lives: %v", blind, p)
			}
			wantErr(t, c.ip(0, cidr, at), ipam.ErrAddressInUse, c.name(2))
		}
		c.ask(2, &ipam.AddressRelease{Network: n.Pool.Network, Address: at})
		for range 20 {
			lists()
		}
		if err := c.ip(0, cidr, at); err != nil {
			t.Errorf("blind %t, it has lived %t: %v", blind, lives, err)
		}
		c.check()
	}
}

// A host that owns nothing of a pool, and has said that it uses it, removes its network and is to
// leave while it is cut off, and is evicted before it is back. It leaves the pool as well.
func TestLeavesAPoolOfWhichItOwnsNothing(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/30")
	first, last := c.network(0, cidr, "10.60.0.2"), c.network(2, cidr)
	c.wait(5 * time.Second)
	c.die(2)
	c.ask(2, &ipam.PoolRelease{Network: last})
	c.call(2, &ipam.LeaveRequest{})
	c.wait(30 * time.Second)
	if err := c.ask(0, &ipam.EvictRequest{Peer: c.name(2)}).Err; err != nil {
		t.Fatal(err)
	}
	c.heal()
	c.wait(10 * time.Minute)
	if s := c.status(2); s.State != ipam.Left {
		t.Errorf("it is %s", s.State)
	}
	c.die(2) // it has left
	c.ask(0, &ipam.PoolRelease{Network: first})
	c.wait(2 * time.Minute)
	if err := c.ip(0, cidr, address("10.60.0.2")); err != nil {
		t.Error(err)
	}
	c.ask(0, &ipam.AddressRelease{Network: local(cidr), Address: address("10.60.0.2")})
	if err := c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
		t.Error(err)
	}
}
