package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// Networks that are older than the database were never asked for: of these the
// engine's list alone tells, and of none before it has come.

// afterRestart is a host whose new database knows a network by the engine's list, and
// whose process has started again since. The universe has that network's subnet alone.
func afterRestart(t *testing.T) *machinetest.Host {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.60.0.0/24")}}})
	look(h, on("10.60.0.0/24"))
	h.Restart()
	return h
}

func TestPoolOfAnUnaskedNetwork(t *testing.T) {
	for what, c := range map[string]struct {
		request ipam.Request
		want    error
	}{
		"removed": {&ipam.PoolRemoval{Pool: "10.60.0.0/24"}, ipam.ErrPoolInUse},
		"chosen":  {&ipam.PoolRequest{Space: ipam.Local}, ipam.ErrNoSubnet},
	} {
		t.Run(what, func(t *testing.T) {
			h := afterRestart(t)
			if r, answered := h.Try(c.request); answered {
				t.Fatalf("answered before the list: %+v", r)
			}
			look(h, on("10.60.0.0/24"))
			wantErr(t, h.Call(c.request).Err, c.want)
			h.CheckDisk()
		})
		t.Run(what+" without a socket", func(t *testing.T) {
			h := afterRestart(t)
			h.Call(&ipam.Blindness{})
			if r := h.Call(c.request); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// What one network keeps back may be kept back by another that is not known yet.
func TestAuxiliaryAddressOfAnUnaskedNetwork(t *testing.T) {
	const a = "10.60.0.9"
	h := withSocket(t)
	keeps := keeping("10.60.0.0/24", a)
	look(h, keeps)
	n := network(t, h, "10.60.0.0/24")
	name(t, h, n, a)
	look(h, keeps, keeps)
	h.Restart()
	release(h, n, address(a))
	h.Call(&ipam.PoolRelease{Network: n})
	if err := claim(h, n, a, "x"); err == nil {
		t.Error("an address that a network keeps back was granted")
	}
	look(h, keeps)
	wantErr(t, claim(h, n, a, "x"), ipam.ErrAddressReserved, "auxiliary")
	for range 5 {
		h.Now = h.Now.Add(30 * time.Second)
		look(h)
	}
	if err := claim(h, n, a, "x"); err != nil {
		t.Errorf("all networks are gone: %v", err)
	}
}

// A host drains, with a bridge of which only the list tells, and starts again: what
// its bridge has stays its own, also where others want all of the pool.
func TestGatewayOfAnUnaskedNetworkWhileItDrains(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.AwaitInventory = true
		}
	})
	c.found()
	const bridge = "10.60.0.0/28"
	list := func(i int) {
		networks := []ipam.InventoryNetwork{}
		if i == 2 {
			networks = append(networks, on(bridge))
			c.call(i, &ipam.HostAddresses{Addresses: []netip.Prefix{prefix("10.60.0.5/28")}})
		}
		c.call(i, &ipam.Inventory{Networks: networks})
	}
	lists := func() {
		for i := range c.peers {
			list(i)
		}
		c.wait(2 * time.Second)
	}
	for range 5 {
		lists()
	}
	a := address("10.60.0.5")
	has := func() bool {
		s, err := c.peers[2].machine.Who(c.now, a)
		return err == nil && s.State == "host"
	}
	if !has() {
		t.Fatal("the bridge has another's address")
	}
	if err := c.ask(2, &ipam.DrainRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	lists()
	c.start(2)
	c.heal()
	c.call(2, &ipam.HostAddresses{Addresses: []netip.Prefix{prefix("10.60.0.5/28")}})
	c.wait(5 * time.Second)
	if !has() {
		t.Error("the bridge's address is not the host's any more")
	}
	if err := c.ask(0, &ipam.PoolRemoval{Pool: bridge}).Err; err == nil {
		t.Error("the pool was removed under the network of another host")
	}
	lists()
	if !has() {
		t.Error("after the list the bridge's address is not the host's any more")
	}
	wantErr(t, c.ask(0, &ipam.PoolRemoval{Pool: bridge}).Err, ipam.ErrPoolInUse, "host-2", "network")
}

// An engine starts on a new database: it asks again for its network and for the
// address of an endpoint that was left, gives that back, and starts the container by
// its fixed address, all before it lists anything.
func TestEndpointThatIsReplayedAndStarted(t *testing.T) {
	const a = "10.60.0.99"
	h := withSocket(t)
	h.Call(&ipam.Greeting{})
	n := network(t, h, "10.60.0.0/24")
	name(t, h, n, a)
	release(h, n, address(a))
	h.Call(&ipam.Blindness{}) // the engine does not answer for so long
	if err := claim(h, n, a, "fixed"); err != nil {
		t.Error(err)
	}
}

// A host loses power, and with it its database. Its engine starts, and lists nothing before it has
// asked again for its network, and for the addresses that its containers had, one after the
// other: it is answered at once, and each address is what it was, until the container goes.
func TestEndpointsReplayedToANewDatabase(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for name, runs := range map[string]bool{"left over": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			c := newLockstepWith(t, 3, func(c *lockstep) {
				for i, p := range c.peers {
					p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
				}
			})
			c.found()
			list := func(es ...ipam.InventoryEndpoint) {
				for i := range c.peers {
					n := on("10.60.0.0/24")
					if i == 2 {
						n.Endpoints = es
					}
					c.call(i, &ipam.Inventory{Networks: []ipam.InventoryNetwork{n}})
				}
				c.wait(30 * time.Second)
			}
			for range 3 {
				list()
			}
			pool := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}
			gateway := &ipam.AddressRequest{Network: plain(cidr.String()), Purpose: ipam.ForGateway}
			for i := range c.peers {
				c.ask(i, pool)
				if r := c.ask(i, gateway); r.Err != nil {
					t.Fatal(r.Err)
				} else if i == 2 {
					gateway.Address = r.Address.Address.Addr()
				}
			}
			var had []ipam.InventoryEndpoint
			for i := range 5 {
				a := c.ask(2, docker(cidr)).Address.Address.Addr()
				had = append(had, listed(a.String(), fmt.Sprint("web-", i), byte(i)))
			}
			list(had...)

			c.rebuild(2)
			c.ask(2, &ipam.Greeting{})
			c.call(2, &ipam.Blindness{})
			if err := c.ask(2, pool).Err; err != nil {
				t.Fatal(err)
			}
			c.run(time.Minute, func() bool { // it has taken over
				o, _ := addr.OffsetOf(cidr, had[0].Address)
				token, _ := c.peers[2].machine.State().PoolOf(cidr).Ring.At(o)
				return token.Owner == c.peers[2].machine.Self()
			})
			began := c.now
			if r := c.ask(2, gateway); r.Err != nil || r.Address.Address.Addr() != gateway.Address {
				t.Errorf("the gateway is %v, %v", r.Address.Address, r.Err)
			}
			for _, e := range had {
				if err := c.ask(2, &ipam.AddressRequest{Network: gateway.Network, Purpose: ipam.ForUnmarked, Address: e.Address}).Err; err != nil {
					t.Error(err)
				}
			}
			if took := c.now.Sub(began); took > time.Second {
				t.Errorf("the engine cannot start for %v", took)
			}
			release := func() {
				for _, e := range had {
					c.ask(2, &ipam.AddressRelease{Network: gateway.Network, Address: e.Address})
				}
			}
			if runs {
				list(had...)
				for _, e := range had {
					wantErr(t, c.ip(0, cidr, e.Address), ipam.ErrAddressInUse, e.Name)
				}
			}
			release()
			for range 3 {
				list()
			}
			if s := c.status(2); s.Verdict != ipam.Fine {
				t.Errorf("problems: %+v", s.Problems)
			}
			for _, e := range had {
				if err := c.ip(0, cidr, e.Address); err != nil {
					t.Error(err)
				}
			}
			wantErr(t, c.ip(0, cidr, gateway.Address), ipam.ErrAddressInUse, "gateway")
		})
	}
}
