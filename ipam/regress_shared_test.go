package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
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
