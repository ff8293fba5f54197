package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// What networks keep back, where one is made right behind another, and above a lost database.

// A lone host has a new database. Its network's shared gateway is the router of its LAN, and an engine before 29
// lists it nowhere; the network's own calls tell. No container gets it, and the engine starts above it.
func TestSharedGatewayOfALostDatabase(t *testing.T) {
	const cidr = "10.50.0.0/24"
	for _, want := range []string{"", "10.50.0.1"} {
		t.Run(want, func(t *testing.T) {
			h := withSocket(t)
			look(h, on(cidr, listed("10.50.0.2", "old", 3)))
			n := plain(cidr)
			n.Gateway = ipam.GatewayFirst
			if r := ask(h, n, "", 7, want); r.Err == nil && r.Address.Address.Addr() == address("10.50.0.1") {
				t.Error("a container has the router's address")
			}
		})
	}
}

// A host with a new database knows a network by lists alone. Somebody else has its shared gateway by now: an operator
// has excluded it, or a container has it. The engine starts, and is not refused the network, which those before 29 do
// not survive; nor is it refused a gateway that is excluded.
func TestReplayOfAListedNetworkWhoseGatewayIsTaken(t *testing.T) {
	const cidr, a = "10.50.0.0/24", "10.50.0.1"
	for _, excluded := range []bool{true, false} {
		for _, mode := range []ipam.GatewayMode{ipam.GatewayHost, ipam.GatewayFirst} {
			for _, reboots := range []bool{true, false} {
				t.Run(fmt.Sprint(excluded, mode, reboots), func(t *testing.T) {
					h := withSocket(t)
					look(h, on(cidr))
					if excluded {
						if r := h.Call(&ipam.ReserveRequest{First: address(a), Last: address(a), Kind: chronicle.KindExcluded}); r.Err != nil {
							t.Fatal(r.Err)
						}
						look(h, on(cidr))
					} else {
						mustAsk(t, h, plain(cidr), "web", 7, a) // of another network on the subnet
						look(h, on(cidr, listed(a, "web", 7)))
					}
					if reboots {
						h.Reboot(time.Minute)
					} else {
						h.Call(&ipam.Greeting{})
					}
					try := func(q ipam.Request) ipam.Reply {
						t.Helper()
						r, ok := h.Try(q)
						if !ok { // it answers no question
							h.Now = h.Now.Add(11 * time.Second)
							h.Call(&ipam.Blindness{})
							r, ok = h.Try(q)
						}
						if !ok {
							t.Fatal("no answer")
						}
						return r
					}
					r := try(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr), Gateway: mode})
					if r.Err != nil {
						t.Fatalf("the network: %v", r.Err)
					}
					if !excluded {
						return
					}
					if r := try(&ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForGateway, Address: address(a)}); r.Err != nil {
						t.Errorf("its gateway: %v", r.Err)
					}
				})
			}
		}
	}
}

// What an engine gives back late above a new database may be a network's in the making: nobody gets its subnet, on
// this host or another, before a list has told.
func TestLateReleaseOfAPoolThatAnotherWants(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for what, q := range map[string]ipam.Request{"wider": creation(prefix("10.60.0.0/16")), "rm": &ipam.PoolRemoval{Pool: cidr.String()}} {
		for by := range 2 {
			for _, mode := range []ipam.GatewayMode{ipam.GatewayHost, ipam.GatewayFirst} {
				for _, lives := range []bool{true, false} {
					t.Run(fmt.Sprint(what, by, mode, lives), func(t *testing.T) {
						c := newAwaiting(t)
						c.run(time.Minute, c.agreed)
						look := func(networks ...ipam.InventoryNetwork) { c.look(2*time.Second, networks...) }
						look()
						look()
						c.wait(time.Minute) // the engine brings no release any more from before the start
						r := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: mode})
						if r.Err != nil {
							t.Fatal(r.Err)
						}
						if mode == ipam.GatewayHost {
							if r := c.ask(0, &ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForGateway}); r.Err != nil {
								t.Fatal(r.Err)
							}
						}
						c.wait(time.Second)
						c.ask(0, &ipam.PoolRelease{Network: r.Pool.Network}) // late
						call := c.call(by, q)
						c.wait(3 * time.Second)
						if r, ok := c.peers[by].replies[call]; ok {
							t.Fatalf("answered before a list has told: %v", r.Err)
						}
						if lives {
							look(on(cidr.String()))
						} else {
							look()
						}
						c.wait(3 * time.Second)
						if r, ok := c.peers[by].replies[call]; !ok || (r.Err != nil) != lives {
							t.Errorf("answered %t: %v", ok, r.Err)
						}
					})
				}
			}
		}
	}
}

// look has all engines give a list, the first one of these networks, and lets time pass.
func (c *lockstep) look(d time.Duration, networks ...ipam.InventoryNetwork) {
	c.t.Helper()
	for i := range c.peers {
		inv := &ipam.Inventory{}
		if i == 0 {
			inv.Networks = networks
		}
		c.call(i, inv)
	}
	c.wait(d)
}

// rightBehind has a network removed on a host with a sound database.
func rightBehind(t *testing.T, gateway ipam.GatewayMode) (*machinetest.Host, netip.Addr) {
	t.Helper()
	const cidr = "10.50.0.0/24"
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix(cidr)}, Bits4: 24}})
	look(h)
	for range 3 {
		h.Now = h.Now.Add(2 * time.Minute)
		look(h)
	}
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Gateway: gateway})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	a := address("10.50.0.1")
	if gateway == ipam.GatewayHost {
		a = gatewayOf(t, h, r.Pool.Network)
	}
	for range 3 {
		h.Now = h.Now.Add(2 * time.Minute)
		look(h, on(cidr))
	}
	release(h, r.Pool.Network, a)
	h.Call(&ipam.PoolRelease{Network: r.Pool.Network})
	h.Now = h.Now.Add(30 * time.Millisecond)
	return h, a
}

func gatewayOf(t testing.TB, h *machinetest.Host, n ipam.Network) netip.Addr {
	t.Helper()
	r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Address.Address.Addr()
}

// docker network rm, and docker network create at once, before the engine has listed more than its networks: what the first network
// kept is the second one's to have, or a container's, and the subnet is chosen again.
func TestNetworkMadeRightBehindAnother(t *testing.T) {
	const cidr = "10.50.0.0/24"
	another := func(t *testing.T, h *machinetest.Host) ipam.Network {
		t.Helper()
		h.Call(&ipam.Inventory{Partial: true, AllNetworks: true})
		n := network(t, h, cidr)
		if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.254")}); r.Err != nil {
			t.Fatal(r.Err)
		}
		return n
	}
	for _, mode := range []ipam.GatewayMode{ipam.GatewayHost, ipam.GatewayFirst} {
		t.Run("container "+mode.String(), func(t *testing.T) {
			h, was := rightBehind(t, mode)
			n := another(t, h)
			for range 5 {
				h.Now = h.Now.Add(2 * time.Minute)
				look(h, on(cidr))
			}
			mustAsk(t, h, n, "web", 7, was.String())
		})
	}
	t.Run("auxiliary", func(t *testing.T) {
		h, was := rightBehind(t, ipam.GatewayHost)
		n := another(t, h)
		if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: was}); r.Err != nil {
			t.Error(r.Err)
		}
	})
	t.Run("chosen", func(t *testing.T) {
		h, _ := rightBehind(t, ipam.GatewayHost)
		r, ok := h.Try(&ipam.PoolRequest{Space: ipam.Local})
		if !ok {
			r = answeredBy(t, h)
		}
		if r.Err != nil {
			t.Error(r.Err)
		}
	})
	t.Run("lists are partial", func(t *testing.T) {
		h, _ := rightBehind(t, ipam.GatewayHost)
		h.Call(&ipam.Inventory{Partial: true, AllNetworks: true})
		if r, ok := h.Try(creation(prefix("10.50.0.0/16"))); !ok || r.Err != nil {
			t.Errorf("answered %t: %v", ok, r.Err)
		}
	})
}

// The only subnet that can be chosen is that of a network which went in its first minute: the next list tells.
func TestChosenRightBehindAYoungNetwork(t *testing.T) {
	const cidr = "10.50.0.0/24"
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix(cidr)}, Bits4: 24}})
	look(h)
	n := h.Call(&ipam.PoolRequest{Space: ipam.Local}).Pool.Network
	gw := gatewayOf(t, h, n)
	look(h, on(cidr))
	release(h, n, gw)
	h.Call(&ipam.PoolRelease{Network: n})
	r, ok := h.Try(&ipam.PoolRequest{Space: ipam.Local})
	if !ok {
		r = answeredBy(t, h)
	}
	if r.Err != nil {
		t.Error(r.Err)
	}
}

// A cluster: an auxiliary address of a network that went is kept back as long as another one is on the pool (R20), which comes in
// the minute after it, and no longer.
func TestAuxiliaryRightBehindAnotherNetwork(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	look := func(networks ...ipam.InventoryNetwork) { c.look(time.Minute, networks...) }
	look()
	look()
	look()
	n := c.network(0, cidr, "10.60.0.9")
	for range 4 {
		look(keeping(cidr.String(), "10.60.0.9"))
	}
	c.ask(0, &ipam.AddressRelease{Network: n, Address: address("10.60.0.9")})
	c.ask(0, &ipam.PoolRelease{Network: n})
	c.call(0, &ipam.Inventory{Partial: true, AllNetworks: true})
	c.wait(30 * time.Millisecond)
	n = c.network(0, cidr, "10.60.0.10")
	for range 5 {
		look(keeping(cidr.String(), "10.60.0.10"))
	}
	wantErr(t, c.ip(0, cidr, address("10.60.0.9")), ipam.ErrAddressReserved)
	c.ask(0, &ipam.PoolRelease{Network: n})
	look()
	look()
	if err := c.ip(0, cidr, address("10.60.0.9")); err != nil {
		t.Error(err)
	}
}

// The engine gives a pool back twice, and a list begins in between: another one is asked for.
func TestPoolGivenBackTwice(t *testing.T) {
	h := withSocket(t)
	look(h)
	n := network(t, h, "10.50.0.0/24")
	gatewayOf(t, h, n)
	h.Call(&ipam.PoolRelease{Network: n})
	h.Now = h.Now.Add(200 * time.Millisecond)
	begun := h.Mark()
	h.Now = h.Now.Add(5 * time.Millisecond)
	h.Call(&ipam.PoolRelease{Network: n})
	if !slices.ContainsFunc(h.Notes, func(n ipam.Note) bool { return n.Kind == ipam.NoteParted }) {
		h.Call(&ipam.Inventory{After: begun})
		if _, ok := h.Try(creation(prefix("10.50.0.0/16"))); !ok {
			t.Error("who needs the space waits for a list that nobody has asked for")
		}
	}
}

// A network's gateway was excluded, when the database was new. An operator ends that: it is the network's.
func TestGatewayThatIsNoMoreExcluded(t *testing.T) {
	const cidr, a = "10.50.0.0/24", "10.50.0.5"
	h := withSocket(t)
	look(h)
	h.Call(&ipam.PoolCreation{CIDR: prefix(cidr)})
	if r := h.Call(&ipam.ReserveRequest{First: address(a), Last: address(a), Kind: chronicle.KindExcluded}); r.Err != nil {
		t.Fatal(r.Err)
	}
	l := on(cidr)
	l.Gateways = []netip.Addr{address(a)}
	look(h, l)
	look(h, l)
	if r := h.Call(&ipam.UnreserveRequest{First: address(a), Last: address(a), Kind: chronicle.KindExcluded}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := ask(h, plain(cidr), "web", 7, a); r.Err == nil {
		t.Error("a container has a network's gateway")
	}
}
