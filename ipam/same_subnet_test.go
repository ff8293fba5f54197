package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// Two networks on one subnet, with the same options, of which the second was taken for a
// replay of the first; and one that was asked for and that the engine never made. As many
// are counted as are listed. A container on both, whose start takes long, has two
// addresses.
func TestTwoNetworksOfWhichOneWasNeverMade(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Sticky: ipam.StickyMAC})
	h.Restart()
	h.Call(&ipam.Greeting{})
	network(t, h, "10.50.0.0/24") // another
	networks := []ipam.InventoryNetwork{on("10.50.0.0/24"), on("10.50.0.0/24")}
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, networks...)
	}
	first := mustAsk(t, h, n, "web", 7, "").Address.Addr()
	h.Now = h.Now.Add(time.Second)
	look(h, networks...)
	if second := mustAsk(t, h, n, "web", 7, "").Address.Addr(); second == first {
		t.Errorf("it has %v on both networks", first)
	}
}

// Two networks with different options on a pool. A container with a fixed address was started, its
// start failed and no release came; it starts again before the engine has listed anything since.
func TestFixedAddressAskedAgain(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	two := func(es ...ipam.InventoryEndpoint) *ipam.Inventory {
		a, b := on("10.50.0.0/24", es...), on("10.50.0.0/24")
		b.ID, b.Name = "n2", "net2"
		return &ipam.Inventory{Networks: []ipam.InventoryNetwork{a, b}}
	}
	h.Call(&ipam.Inventory{})
	n := network(t, h, "10.50.0.0/24")
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.0/25")})
	for range 3 {
		h.Now = h.Now.Add(2 * time.Minute)
		h.Call(two())
	}
	h.Now = h.Now.Add(time.Second)
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 1}, Address: netip.MustParseAddr("10.50.0.50")}
	if r := h.Call(q); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.Now = h.Now.Add(2 * time.Second)
	r, ok := h.Try(q)
	if ok && r.Err != nil {
		t.Errorf("refused before the engine could tell: %v", r.Err)
	}
}

// The last network on a pool is removed while the engine lists what it has, so the list
// has it still. The pool is to go right behind it: that waits for the next list, which
// tells whether the network that was listed is the one that went.
func TestPoolRemovedRightBehindItsNetwork(t *testing.T) {
	const subnet = "10.60.0.0/24"
	for what, q := range map[string]ipam.Request{
		"ringlet pool rm": &ipam.PoolRemoval{Pool: subnet},
		"it makes room":   &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/16")},
	} {
		for _, stays := range []bool{false, true} {
			c := newAwaiting(t)
			c.run(time.Minute, c.agreed)
			c.look(time.Second)
			list := func(begun ipam.Mark, networks ...ipam.InventoryNetwork) {
				c.call(0, &ipam.Inventory{After: begun, Networks: networks})
			}
			n := c.network(0, prefix(subnet))
			c.wait(time.Minute)
			list(c.mark(0), on(subnet))
			c.wait(time.Minute)
			begun := c.mark(0)
			c.wait(10 * time.Millisecond)
			c.ask(0, &ipam.PoolRelease{Network: n})
			list(begun, on(subnet))
			call := c.call(0, q)
			c.wait(time.Second)
			if r, ok := c.peers[0].replies[call]; ok {
				t.Errorf("%s: answered by a list from before: %v", what, r.Err)
			}
			if stays {
				list(c.mark(0), on(subnet))
			} else {
				list(c.mark(0))
			}
			c.wait(time.Second)
			switch r, ok := c.peers[0].replies[call]; {
			case !ok:
				t.Errorf("%s, another network is there %t: the next list does not answer it", what, stays)
			case (r.Err != nil) != stays:
				t.Errorf("%s, another network is there %t: %v", what, stays, r.Err)
			}
		}
	}
}

// listedNetwork returns three hosts, of which the third has a network with a gateway of its own that its engine has listed.
func listedNetwork(t *testing.T) (c *lockstep, n ipam.Network, gateway netip.Addr) {
	t.Helper()
	c = newAwaiting(t)
	c.run(time.Minute, c.agreed)
	c.lists(2)
	c.wait(time.Second)
	n = c.makes(2, prefix("10.60.0.0/24"), ipam.PoolRequest{})
	gateway = c.ownGateway(2, n)
	c.lists(2, on(n.Pool.String()))
	return c, n, gateway
}

// ownGateway has the engine of a peer ask for the gateway of a network, which is the host's own.
func (c *lockstep) ownGateway(i int, n ipam.Network) netip.Addr {
	c.t.Helper()
	r := c.ask(i, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	return r.Address.Address.Addr()
}

// givesBack has the engine of a peer give back a network with its gateway.
func (c *lockstep) givesBack(i int, n ipam.Network, gateway netip.Addr) {
	c.call(i, &ipam.AddressRelease{Network: n, Address: gateway})
	c.call(i, &ipam.PoolRelease{Network: n})
}

// keepsGatewayUntilListed asserts that a gateway that the third host was granted for a network is nobody else's before lists
// show whether there is such a network, and somebody's once they have shown that there is none.
func (c *lockstep) keepsGatewayUntilListed(call uint64, cidr netip.Prefix) {
	c.t.Helper()
	r := c.peers[2].replies[call]
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	look := func() {
		c.lists(2)
		c.wait(time.Second)
	}
	look() // it is not listed yet
	wantErr(c.t, c.ip(0, cidr, r.Address.Address.Addr()), ipam.ErrAddressInUse, "host-2")
	for range 6 {
		look()
		c.wait(30 * time.Second)
	}
	if err := c.ip(0, cidr, r.Address.Address.Addr()); err != nil {
		c.t.Errorf("no network is there, and its gateway is kept: %v", err)
	}
}

// A host has lost its database under a network, and a second one with the same options is made there, whose gateway waits until
// the host has taken over from its former self. Meanwhile the first is removed: what is given back is not the second, which is
// not answered yet. Its gateway stays its own, until lists tell that it is gone, too.
func TestNetworkIsRemovedWhileOneLikeItIsMade(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.Machine, p.cfg.AwaitInventory = uint64(i+1), true
		}
	})
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	look := func(networks ...ipam.InventoryNetwork) {
		c.lists(2, networks...)
		c.wait(time.Second)
	}
	look()
	q := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}
	n := c.ask(2, q).Pool.Network
	first := c.ask(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	look(on(cidr.String()))
	c.rebuild(2)
	c.run(time.Minute, func() bool {
		m := c.peers[2].machine
		return m.State().Slot > 0 && m.State().Member(m.Self()) != nil
	})
	look(on(cidr.String()))
	if r := c.ask(2, q); r.Err != nil {
		t.Fatal(r.Err)
	}
	call := c.call(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	if r, answered := c.peers[2].replies[call]; answered {
		t.Fatalf("before it has taken over it answers %v, %v", r.Address.Address, r.Err)
	}
	look(on(cidr.String()))
	c.ask(2, &ipam.AddressRelease{Network: n, Address: first})
	c.ask(2, &ipam.PoolRelease{Network: n})
	answered := func() bool { _, ok := c.peers[2].replies[call]; return ok }
	for !answered() {
		look()
	}
	c.keepsGatewayUntilListed(call, cidr)
}

// A network is removed while the plugin is away, and one with the same options is made before the engine brings that: by then it
// is taken for the first one, for which an engine that starts would ask again. What is given back is the first, as the
// second waits for its gateway: that stays its own, until lists tell that it is gone, too.
func TestReleaseIsBroughtWhileANetworkLikeItIsMade(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	look := func() {
		c.lists(2)
		c.wait(time.Second)
	}
	look()
	q := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}
	n := c.ask(2, q).Pool.Network // a macvlan network, for which the engine asks for no gateway
	c.wait(time.Minute)
	c.silence(0, 1)
	c.start(2)
	c.call(2, &ipam.Greeting{})
	c.wait(10 * time.Millisecond)
	if r := c.ask(2, q); r.Err != nil {
		t.Fatal(r.Err)
	}
	call := c.call(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	answered := func() bool { _, ok := c.peers[2].replies[call]; return ok }
	if answered() {
		t.Fatal("it is answered before the peer knows that its database is up to date")
	}
	c.call(2, &ipam.Inventory{})
	c.call(2, &ipam.PoolRelease{Network: n})
	c.dead = nil
	c.run(time.Minute, answered)
	c.keepsGatewayUntilListed(call, cidr)
}

// As TestReleaseIsBroughtWhileANetworkLikeItIsMade, before any list has shown that the engine does not start, and a third one like
// them is made. When that goes again the second keeps its gateway (seed 6844689550852853897 of TestSim).
func TestReleaseIsBroughtWhileTwoNetworksLikeItAreMade(t *testing.T) {
	c, n, had := listedNetwork(t)
	var calls []uint64
	makes := func() {
		c.makes(2, n.Pool, ipam.PoolRequest{})
		calls = append(calls, c.call(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}))
	}
	c.wait(time.Minute)
	c.silence(0, 1)
	c.start(2)
	c.call(2, &ipam.Greeting{})
	c.wait(10 * time.Millisecond)
	makes()
	c.givesBack(2, n, had)
	makes()
	c.wait(time.Second)
	c.lists(2)
	c.dead = nil
	c.run(time.Minute, func() bool {
		for _, call := range calls {
			if _, answered := c.peers[2].replies[call]; !answered {
				return false
			}
		}
		return true
	})
	for _, call := range calls {
		if r := c.peers[2].replies[call]; r.Err != nil || r.Address.Address.Addr() != had {
			t.Fatalf("its gateway is %v, %v, and not %v", r.Address.Address, r.Err, had)
		}
	}
	c.givesBack(2, n, had)
	c.wait(time.Second)
	c.keepsGatewayUntilListed(calls[0], n.Pool)
}

// As it, and what is given back had been refused before the plugin was away, and was not counted, as it was taken for the one that
// lives: that one keeps its gateway, as the second is refused, too, and the engine tells nothing any more.
func TestRefusedNetworkIsBroughtWhileOneLikeItIsMade(t *testing.T) {
	c, n, had := listedNetwork(t)
	c.wait(2 * time.Minute)
	c.silence(0, 1)
	c.start(2)
	c.call(2, &ipam.Greeting{})
	c.wait(time.Second)
	c.makes(2, n.Pool, ipam.PoolRequest{})
	call := c.call(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	c.call(2, &ipam.PoolRelease{Network: n})
	c.wait(time.Second)
	c.dead = nil
	c.run(time.Minute, func() bool { _, answered := c.peers[2].replies[call]; return answered })
	c.call(2, &ipam.Blindness{})
	c.wait(time.Second)
	c.call(2, &ipam.PoolRelease{Network: n})
	c.wait(time.Second)
	wantErr(t, c.ip(0, n.Pool, had), ipam.ErrAddressInUse, "host-2")
}

// A network with two subnets is made while the release of one like it, with the first of them, is yet to come: it has its first
// gateway, and waits for the second subnet, when that comes, before a list or behind one. It keeps that gateway.
func TestReleaseIsBroughtWhileTheOtherSubnetIsMade(t *testing.T) {
	for _, early := range []bool{true, false} {
		c, n, had := listedNetwork(t)
		makes := func() netip.Addr { return c.ownGateway(2, c.makes(2, n.Pool, ipam.PoolRequest{})) }
		c.wait(time.Minute)
		c.start(2)
		c.call(2, &ipam.Greeting{})
		c.wait(time.Second)
		if got := makes(); got != had {
			t.Fatalf("the gateway is %v, and not %v", got, had)
		}
		c.silence(0, 1)
		call := c.call(2, &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("fd00:60::/64")})
		c.wait(time.Second)
		if !early {
			c.lists(2)
			c.wait(time.Second)
		}
		c.givesBack(2, n, had)
		c.wait(time.Second)
		if r, answered := c.peers[2].replies[call]; answered {
			t.Fatalf("the second subnet is answered without a majority: %v", r.Err)
		}
		if early {
			another := makes() // one more, which its driver refuses
			c.lists(2)
			c.wait(time.Second)
			c.givesBack(2, n, another)
			c.wait(time.Second)
		}
		c.lists(2) // it is not listed yet
		c.dead = nil
		c.wait(2 * time.Second)
		if r, answered := c.peers[2].replies[call]; !answered || r.Err != nil {
			t.Fatalf("the second subnet: answered %t, %v", answered, r.Err)
		}
		wantErr(t, c.ip(0, n.Pool, had), ipam.ErrAddressInUse, "host-2")
	}
}

// An engine whose calls of plugins have a shorter time gives up a network that waits for an auxiliary address, and gives back its
// pool, on a host that gets no lists: the network is counted no more, which nothing else would tell.
func TestEngineGivesUpANetworkWithoutLists(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	c.network(2, cidr)
	c.silence(0, 1)
	c.wait(5 * time.Second)
	n := c.ask(2, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayNone}).Pool.Network
	call := c.call(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.60.0.77")})
	c.wait(5 * time.Second)
	if _, answered := c.peers[2].replies[call]; answered {
		t.Fatal("what nobody agrees to is answered")
	}
	c.ask(2, &ipam.PoolRelease{Network: n})
	c.wait(time.Minute)
	if networks := c.status(2).Networks; len(networks) != 1 {
		t.Errorf("the engine has one network, and %+v are counted", networks)
	}
}
