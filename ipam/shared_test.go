package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// What networks name, a gateway or auxiliary addresses, is kept back for as long as any
// host has a network on the pool, whoever named it, and no longer.
func TestKeptBackAsLongAsThereAreNetworks(t *testing.T) {
	cidr, aux := prefix("10.60.0.0/24"), "10.60.0.50"
	for what, end := range map[string]func(*lockstep, ipam.Network){
		"it is removed": func(c *lockstep, n ipam.Network) { c.ask(1, &ipam.PoolRelease{Network: n}) },
		"its host is given up": func(c *lockstep, _ ipam.Network) {
			c.die(1)
			c.ask(0, &ipam.EvictRequest{Peer: c.name(1)})
			c.ask(0, &ipam.ForgetRequest{Peer: c.name(1)})
			// It may have the gateway yet, if it is not gone after all; the next network
			// that goes ends that.
			c.ask(0, &ipam.PoolRelease{Network: c.network(0, cidr)})
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.run(time.Minute, c.agreed)
			first, last := c.network(0, cidr, aux), c.network(1, cidr)
			c.wait(2 * time.Minute)
			c.ask(0, &ipam.AddressRelease{Network: first, Address: address(aux)})
			c.ask(0, &ipam.PoolRelease{Network: first})
			c.wait(5 * time.Minute)
			for i := range 2 {
				wantErr(t, c.ip(i, cidr, address(aux)), ipam.ErrAddressReserved)
			}
			end(c, last)
			c.wait(5 * time.Minute)
			if err := c.ip(0, cidr, address(aux)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The last network of a pool goes just as another host makes one that names the same, a
// gateway or an auxiliary address: that stays kept back, at whatever moment.
func TestKeptBackWhileTheLastNetworkGoes(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for name, shared := range map[string]struct {
		gateway ipam.GatewayMode
		address string
	}{"gateway": {ipam.GatewayFirst, "10.60.0.1"}, "auxiliary": {ipam.GatewayNone, "10.60.0.50"}} {
		t.Run(name, func(t *testing.T) {
			makes := func(c *lockstep, i int) ipam.Network {
				r := c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: shared.gateway})
				if r.Err == nil && !r.Pool.Gateway.IsValid() {
					r.Err = c.ask(i, &ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForUnmarked, Address: address(shared.address)}).Err
				}
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				return r.Pool.Network
			}
			lastGoes := func() *lockstep {
				c := newLockstep(t, 3)
				c.run(time.Minute, c.agreed)
				n := makes(c, 0)
				c.wait(2 * time.Minute)
				c.ask(0, &ipam.PoolRelease{Network: n})
				return c
			}
			c := lastGoes()
			c.run(time.Hour, func() bool { return len(c.peers[1].machine.State().PoolOf(cidr).Users) == 0 })
			told := c.now
			for before := range 40 {
				c := lastGoes()
				c.wait(told.Sub(c.now) - time.Duration(before)*250*time.Microsecond)
				makes(c, 1)
				c.wait(5 * time.Minute)
				for i := range c.peers {
					if err := c.ip(i, cidr, address(shared.address)); err == nil {
						t.Errorf("%d: %s hands out what a network keeps back", before, c.name(i))
					}
				}
				c.check()
			}
		})
	}
}

// Of two hosts the first decides alone, also what the other was about to, which it makes out
// in the slot before its own: that the last network is gone, as it makes one itself.
func TestKeptBackWhileTheOthersLastNetworkGoes(t *testing.T) {
	cidr, gateway := prefix("10.60.0.0/24"), address("10.60.0.1")
	request := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst}
	for late := range 20 {
		c := newLockstep(t, 2)
		c.run(time.Minute, c.agreed)
		voters := c.peers[0].machine.State().Voters()
		first, other := c.byID[voters[0]], c.byID[voters[1]]
		r := c.ask(other, request)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		c.wait(2 * time.Minute)
		said := c.hears()
		heard := c.lose
		c.lose = func(f flight) bool {
			_, promises := f.frame.Body.(wire.Promise)
			_, submits := f.frame.Body.(wire.Submit)
			return heard(f) || submits || f.from == first && !promises
		}
		c.ask(other, &ipam.PoolRelease{Network: r.Pool.Network})
		c.run(time.Hour, func() bool { return count(*said)["wire.Accept"] > 0 })
		c.wait(time.Duration(1+50*late) * time.Millisecond)
		if r := c.ask(first, request); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.lose = heard
		c.wait(5 * time.Minute)
		for i := range c.peers {
			if err := c.ip(i, cidr, gateway); err == nil {
				t.Errorf("%d: %s hands out what a network keeps back", late, c.name(i))
			}
		}
		c.check()
	}
}

// Something on the network answered for an address of one host, which hands it out no
// more. It is the router, or another device that a network names, on whatever host.
func TestStrangerThatANetworkNames(t *testing.T) {
	for what, purpose := range map[string]ipam.Purpose{"--gateway": ipam.ForGateway, "--aux-address": ipam.ForUnmarked} {
		for i := range 3 {
			c := newLockstep(t, 3)
			c.found()
			cidr := prefix("10.50.0.0/24")
			g := c.ask(1, docker(cidr)).Address
			c.ask(1, &ipam.Stranger{Ticket: g.Ticket, MAC: ipam.MAC{2, 9}})
			router := g.Address.Addr()
			r := c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Range: prefix("10.50.0.128/25")})
			if r.Err == nil {
				r = c.ask(i, &ipam.AddressRequest{Network: r.Pool.Network, Purpose: purpose, Address: router})
			}
			if r.Err != nil {
				t.Errorf("docker network create %s %v on %s: %v", what, router, c.name(i), r.Err)
			}
			c.wait(5 * time.Second)
			for j := range c.peers {
				wantErr(t, c.ip(j, cidr, router), ipam.ErrAddressReserved)
			}
			c.check()
		}
	}
}

// One network names an address as auxiliary that the host has on an interface, as the
// gateway of one that it has removed; another asks for its gateway before that is decided.
// It gets another one.
func TestGatewayWhileItBecomesAuxiliary(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/24")
	q := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}
	bridge := c.ask(1, q).Pool.Network
	gateway := c.ask(1, &ipam.AddressRequest{Network: bridge, Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.ask(1, &ipam.PoolRelease{Network: bridge})
	c.ask(1, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(gateway, 24)}})
	other := c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayNone}).Pool.Network
	c.ask(1, q)
	c.wait(time.Second)
	c.call(1, &ipam.AddressRequest{Network: other, Purpose: ipam.ForUnmarked, Address: gateway})
	again := c.ask(1, &ipam.AddressRequest{Network: bridge, Purpose: ipam.ForGateway})
	if again.Err != nil || again.Address.Address.Addr() == gateway {
		t.Errorf("got %v, %v", again.Address.Address, again.Err)
	}
	c.wait(time.Second)
	wantErr(t, c.ip(1, cidr, gateway), ipam.ErrAddressReserved, "auxiliary")
	c.check()
}

// A host was rebuilt, and its network with a shared gateway adopted from what its engine lists. Its
// plugin is started anew while the engine does not answer for a moment, or for long, and refuses a
// network that does not fit the pool.
func TestSharedUnderAnAdoptedNetwork(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
		}
	})
	c.found()
	cidr, gw := prefix("10.60.0.0/24"), address("10.60.0.1")
	lists := func(has bool) {
		for i := range c.peers {
			l := &ipam.Inventory{}
			if i == 2 && has {
				n := on(cidr.String())
				n.Gateways = []netip.Addr{gw}
				l.Networks = []ipam.InventoryNetwork{n}
			}
			c.call(i, l)
		}
		c.wait(time.Second)
	}
	lists(false)
	if err := c.ask(0, &ipam.PoolCreation{CIDR: cidr, Name: "lab"}).Err; err != nil {
		t.Fatal(err)
	}
	c.network(2, cidr)
	c.wait(5 * time.Second)
	lists(true)
	c.rebuild(2)
	for range 200 {
		lists(true)
	}
	wantErr(t, c.ip(0, cidr, gw), ipam.ErrAddressReserved)
	c.start(2)
	c.ask(2, &ipam.Greeting{})
	c.call(2, &ipam.Blindness{})
	c.wait(10 * time.Second)
	wantErr(t, c.ip(0, cidr, gw), ipam.ErrAddressReserved)
	misfit := &ipam.PoolRequest{Space: ipam.Local, PoolName: "lab", Gateway: ipam.GatewayAddr, GatewayAddr: address("10.61.0.1")}
	wantErr(t, c.ask(2, misfit).Err, ipam.ErrBadRequest, "10.61.0.1")
	c.wait(3 * time.Minute)
	wantErr(t, c.ip(0, cidr, gw), ipam.ErrAddressReserved)
}

// A host that loses its database and cannot ask its engine has a network with a shared gateway.
func TestSharedOnABlindHostWithANewDatabase(t *testing.T) {
	for _, gone := range []bool{false, true} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for i, p := range c.peers {
				p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
			}
		})
		c.found()
		cidr := prefix("10.60.0.0/24")
		empty := &ipam.Inventory{}
		for i := range c.peers {
			c.call(i, empty)
		}
		c.wait(2 * time.Second)
		c.network(2, cidr)
		c.wait(5 * time.Second)
		c.rebuild(2)
		c.step(2, &ipam.Call{ID: 10000, Deadline: c.now.Add(time.Minute), Request: &ipam.Greeting{}})
		if gone {
			c.call(2, &ipam.Blindness{})
		}
		for range 20 {
			c.wait(30 * time.Second)
			for i := range 2 {
				c.call(i, &ipam.Inventory{})
			}
		}
		wantErr(t, c.ip(0, cidr, address("10.60.0.1")), ipam.ErrAddressReserved)
	}
}

// A host says that it has no networks on a pool any more, and is cut off before it hears that this was decided. It makes no
// network there, also not after a start, before that is settled: what the last other network shared with it goes meanwhile.
func TestSharedOnAHostThatIsCutOff(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		order := c.order()
		a, b := order[0], order[2]
		cidr, gw := prefix("10.60.0.0/24"), address("10.60.0.1")
		first := c.network(a, cidr)
		mine := c.network(b, cidr)
		c.wait(time.Minute)
		c.ask(b, &ipam.PoolRelease{Network: mine})
		c.wait(59 * time.Second)
		c.lose = func(f flight) bool { return f.to == b }
		c.wait(3 * time.Second)
		c.lose = func(f flight) bool { return f.to == b || f.from == b }
		if restarts {
			c.start(b)
			c.wait(5 * time.Second)
		}
		if r := c.ask(b, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayNone}); r.Err == nil {
			t.Errorf("restarts %v: granted, and nobody keeps the pool for it", restarts)
		}
		c.ask(a, &ipam.PoolRelease{Network: first})
		c.wait(2 * time.Minute)
		if err := c.ip(a, cidr, gw); err != nil {
			t.Fatal(err)
		}
		r := c.ask(b, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst})
		if r.Err == nil {
			t.Errorf("restarts %v: %s is told that %v is the gateway of its network, and %s has given that to a container", restarts, c.name(b), r.Pool.Gateway, c.name(a))
		}
	}
}

// That host has another name from its next start on, while its engine is silent still: what
// tells its machine is another word then, and what it took over is what it was.
func TestSharedOnABlindHostWithANewDatabaseAndName(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
		}
	})
	c.found()
	cidr := prefix("10.60.0.0/24")
	for i := range c.peers {
		c.call(i, &ipam.Inventory{})
	}
	c.wait(2 * time.Second)
	c.network(2, cidr)
	c.wait(5 * time.Second)
	c.rebuild(2)
	c.wait(time.Minute)
	c.peers[2].cfg.Machine = 33
	c.start(2)
	c.step(2, &ipam.Call{ID: 10000, Deadline: c.now.Add(time.Minute), Request: &ipam.Greeting{}})
	c.call(2, &ipam.Blindness{})
	n := c.ask(2, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayNone})
	if n.Err != nil {
		t.Fatal(n.Err)
	}
	c.ask(2, &ipam.PoolRelease{Network: n.Pool.Network}) // another network, which comes and goes
	for range 20 {
		c.wait(30 * time.Second)
		for i := range 2 {
			c.call(i, &ipam.Inventory{})
		}
	}
	wantErr(t, c.ip(0, cidr, address("10.60.0.1")), ipam.ErrAddressReserved)
}
