package ipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Hosts that were forgotten and are back, with networks: their gateways, and what else these keep back.

// A host is forgotten, the others make and remove a network, with which goes what networks keep back, and a container of
// another host gets the router and an auxiliary address of the one that the forgotten host has. It is back: it tells of that, once,
// until they are free, and then has them kept back again.
func TestForgottenHostWhoseRouterWasHandedOut(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr, router, device := prefix("10.60.0.0/24"), address("10.60.0.1"), address("10.60.0.77")
	back := c.order()[2]
	other := (back + 1) % 3
	lists := map[int][]ipam.InventoryNetwork{}
	look := func(times int) {
		for range times {
			for i := range c.peers {
				if !c.dead[i] && c.ask(i, &ipam.Inventory{Networks: lists[i]}).Again == time.Second {
					c.wait(time.Second)
					c.ask(i, &ipam.Inventory{Networks: lists[i]})
				}
			}
			c.wait(20 * time.Second)
		}
	}
	look(2)
	n := c.network(back, cidr, device.String())
	if r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}); r.Address.Address.Addr() != router {
		t.Fatal(r.Address, r.Err)
	}
	lists[back] = []ipam.InventoryNetwork{keeping(cidr.String(), device.String())}
	lists[back][0].Gateways = []netip.Addr{router}
	look(4)
	c.die(back)
	c.giveUp(other, back)
	short := c.network(other, cidr)
	c.wait(2 * time.Minute)
	c.ask(other, &ipam.PoolRelease{Network: short})
	look(10)
	for k, a := range []netip.Addr{router, device} {
		if err := c.ip(other, cidr, a); err != nil {
			t.Fatal(err)
		}
		lists[other] = append(lists[other], on(cidr.String(), listed(a.String(), "web", byte(7+k))))
	}
	c.comeBack(other)
	look(2)
	noted := len(c.peers[back].noted)
	for range 5 {
		look(1)
		if got := c.conflicts(back); !slices.Equal(got, []netip.Addr{router, device}) {
			t.Fatalf("its router and a device of its network are %v and %v, another host's containers have both, and it tells of %v", router, device, got)
		}
	}
	if n := len(c.peers[back].noted) - noted; n > 0 {
		t.Errorf("that was noted %d times more: %+v", n, c.peers[back].noted)
	}
	for _, a := range []netip.Addr{router, device} {
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: a})
	}
	delete(lists, other)
	look(4)
	if got := c.conflicts(back); len(got) > 0 {
		t.Errorf("it tells of %v, which nobody else has", got)
	}
	for _, a := range []netip.Addr{router, device} {
		wantErr(t, c.ip(other, cidr, a), ipam.ErrAddressReserved)
	}
	c.check()
}

// makes has the engine of a peer make a network on the subnet, and returns that.
func (c *lockstep) makes(i int, cidr netip.Prefix, q ipam.PoolRequest) ipam.Network {
	c.t.Helper()
	q.Space, q.Pool = ipam.Local, cidr
	r := c.ask(i, &q)
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	return r.Pool.Network
}

// comesAndGoes has the engine of a peer make a network on the subnet, and remove it some time later: what the networks of hosts
// that were forgotten kept back there goes with it.
func (c *lockstep) comesAndGoes(i int, cidr netip.Prefix) {
	c.t.Helper()
	n := c.makes(i, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	c.wait(2 * time.Minute)
	c.ask(i, &ipam.PoolRelease{Network: n})
}

// forgottenGateway returns three hosts of which one was forgotten, and is not back yet, with a network that had a gateway of the
// host's own, and is there still or not, beside one without. A container of the host behind it has that address by now.
func forgottenGateway(t *testing.T, cidr netip.Prefix, there bool) (c *lockstep, back int, first ipam.Network, had netip.Addr) {
	t.Helper()
	c = newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	back = c.order()[2]
	other := (back + 1) % 3
	c.makes(back, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone}) // it keeps the other's gateway when that goes
	first = c.makes(back, cidr, ipam.PoolRequest{})
	had = c.ask(back, &ipam.AddressRequest{Network: first, Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.wait(10 * time.Second)
	if !there {
		c.ask(back, &ipam.AddressRelease{Network: first, Address: had})
		c.ask(back, &ipam.PoolRelease{Network: first})
	}
	c.die(back)
	c.giveUp(other, back)
	if err := c.ip(other, cidr, had); err != nil {
		t.Fatal(err)
	}
	return c, back, first, had
}

// A host is forgotten, the pool of its networks is removed, or what they kept back there goes with another host's network, and
// it comes back. A container on one of them gets the router of the others, unless a list has told what they keep back. When these
// are removed, before a list or long after one, they give back their router, which ends nothing of the container; and what the
// container gives back is free once a list lacks it.
func TestReleaseByANetworkOfAHostThatIsBack(t *testing.T) {
	cidr, router := prefix("10.60.0.0/24"), address("10.60.0.1")
	for name, s := range map[string]struct {
		twice   bool // two networks share it
		untyped bool // nobody typed it: engines before 29 do not list it
		device  bool // it is an auxiliary address
		stays   bool // the pool is not removed
		listed  bool // the container was, long ago
	}{
		"one": {}, "two": {twice: true}, "auxiliary": {device: true},
		"untyped": {untyped: true}, "untyped, listed": {untyped: true, listed: true}, "untyped, in a pool that stays": {untyped: true, stays: true},
		"untyped, in a pool that stays, listed": {untyped: true, stays: true, listed: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAwaiting(t)
			c.run(time.Minute, c.agreed)
			back := c.order()[2]
			other := (back + 1) % 3
			kept := on(cidr.String())
			q, a := ipam.PoolRequest{}, &ipam.AddressRequest{Purpose: ipam.ForGateway, Address: router}
			switch {
			case s.device:
				q.Gateway, q.Sticky = ipam.GatewayNone, ipam.StickyNone
				a.Purpose = ipam.ForUnmarked
				kept.Auxiliary = []netip.Addr{router}
			case s.untyped:
				q.Gateway, a.Address = ipam.GatewayFirst, netip.Addr{}
			default:
				kept.Gateways = []netip.Addr{router}
			}
			networks := []ipam.InventoryNetwork{kept}
			if s.twice {
				networks = append(networks, kept)
			}
			c.lists(back)
			c.lists(back)
			for range networks {
				a.Network = c.makes(back, cidr, q)
				if r := c.ask(back, a); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			plain := c.makes(back, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone})
			web := on(cidr.String(), listed(router.String(), "web", 7))
			c.wait(time.Minute)
			c.lists(back, append(networks, on(cidr.String()))...)
			c.die(back)
			c.giveUp(other, back)
			if s.stays {
				c.comesAndGoes(other, cidr)
				c.wait(5 * time.Minute)
			} else if err := c.ask(other, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
				t.Fatal(err)
			}
			c.comeBack(other)
			run := &ipam.AddressRequest{Network: plain, Purpose: ipam.ForContainer, Name: "web", Address: router, MAC: ipam.MAC{2, 0, 0, 0, 0, 7}}
			r := c.ask(back, run)
			if !s.untyped {
				wantErr(t, r.Err, ipam.ErrAddressReserved, "by a network of this host")
				return
			}
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			c.wait(5 * time.Second)
			if s.listed {
				c.lists(back, append(networks, web)...)
				c.wait(time.Hour)
			}
			for range networks {
				c.ask(back, &ipam.AddressRelease{Network: a.Network, Address: router})
				c.ask(back, &ipam.PoolRelease{Network: a.Network})
			}
			wantErr(t, c.ip(other, cidr, router), ipam.ErrAddressInUse, c.name(back))
			c.wait(2 * time.Second)
			c.lists(back, web)
			wantErr(t, c.ip(other, cidr, router), ipam.ErrAddressInUse, c.name(back))
			c.ask(back, &ipam.AddressRelease{Network: plain, Address: router})
			for range 2 {
				c.wait(time.Minute)
				c.lists(back, on(cidr.String()))
			}
			c.wait(10 * time.Second)
			if err := c.ip(other, cidr, router); err != nil {
				t.Errorf("both are gone: %v", err)
			}
		})
	}
}

// A host with two networks that share a router is forgotten, what they kept back goes with another host's network, and it comes
// back. One of them goes, and a container gets the router before a list. When the other one goes it stays the container's.
func TestSecondReleaseByNetworksOfAHostThatIsBack(t *testing.T) {
	cidr, router := prefix("10.60.0.0/24"), address("10.60.0.1")
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	back := c.order()[2]
	other := (back + 1) % 3
	kept := on(cidr.String())
	kept.Gateways = []netip.Addr{router}
	c.lists(back)
	c.lists(back)
	a := &ipam.AddressRequest{Purpose: ipam.ForGateway, Address: router}
	for range 2 {
		a.Network = c.makes(back, cidr, ipam.PoolRequest{})
		if r := c.ask(back, a); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	plain := c.makes(back, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	c.wait(time.Minute)
	c.lists(back, kept, kept, on(cidr.String()))
	c.wait(time.Second)
	c.die(back)
	c.giveUp(other, back)
	c.comesAndGoes(other, cidr)
	c.wait(15 * time.Minute)
	c.comeBack(other)
	goes := func() {
		c.ask(back, &ipam.AddressRelease{Network: a.Network, Address: router})
		c.ask(back, &ipam.PoolRelease{Network: a.Network})
		c.wait(time.Second)
	}
	goes()
	web := &ipam.AddressRequest{Network: plain, Purpose: ipam.ForContainer, Name: "web", Address: router, MAC: ipam.MAC{2, 0, 0, 0, 0, 7}}
	if r := c.ask(back, web); r.Err != nil {
		t.Fatal(r.Err)
	}
	goes()
	wantErr(t, c.ip(other, cidr, router), ipam.ErrAddressInUse, c.name(back))
}

// A network that kept an address back is removed, and made anew without that. A container gets the address, ends, and is
// started again with it, without a name as by engines before 29. The engine may repeat the release of the network that is
// gone (T12), so no release frees the address: the list does.
func TestReleaseOfWhatARemovedNetworkKeptBack(t *testing.T) {
	h := withSocket(t)
	look(h)
	n, a := network(t, h, "10.50.0.0/24"), address("10.50.0.9")
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: a}); r.Err != nil {
		t.Fatal(r.Err)
	}
	kept := on("10.50.0.0/24")
	kept.Auxiliary = []netip.Addr{a}
	for range 2 {
		h.Now = h.Now.Add(time.Minute)
		look(h, kept)
	}
	release(h, n, a)
	h.Call(&ipam.PoolRelease{Network: n})
	h.Now = h.Now.Add(time.Second)
	n = network(t, h, "10.50.0.0/24")
	for mac := range byte(3) {
		mustAsk(t, h, n, "", 7+mac, a.String())
		h.Now = h.Now.Add(2 * time.Second)
		look(h, on("10.50.0.0/24", listed(a.String(), "web", 7+mac)))
		release(h, n, a)
		if s, err := h.Machine().Who(h.Now, a); err != nil || s.State != "held" {
			t.Errorf("before a list the address is %+v, %v", s, err)
		}
		h.Now = h.Now.Add(200 * time.Millisecond)
		look(h, on("10.50.0.0/24"))
	}
}

// A host has its own gateway on a network, and is forgotten; another host gives the gateway's address to a container. Another
// network of the host that is back does not get that, nor what the bridge of one that is gone has left: it gets a gateway
// of its own, or, where the two would share one, an error that names it. Once nobody else has it any more it is the host's again.
func TestGatewayOfAForgottenHost(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for _, there := range []bool{true, false} {
		c, back, first, had := forgottenGateway(t, cidr, there)
		other := (back + 1) % 3
		gateway := func(n ipam.Network) (netip.Addr, error) {
			r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
			return r.Address.Address.Addr(), r.Err
		}
		c.start(back) // which has yet to hear of it
		if there {
			c.makes(back, cidr, ipam.PoolRequest{}) // a second one with the same options
			q := &ipam.AddressRequest{Network: first, Purpose: ipam.ForGateway}
			if r, answered := c.answered(back, q); answered && r.Err == nil {
				t.Errorf("before it knows whether it was forgotten it grants %v", r.Address.Address)
			}
		}
		c.comeBack(other)
		second := c.makes(back, cidr, ipam.PoolRequest{Sticky: ipam.StickyNone})
		switch got, err := gateway(second); {
		case there:
			wantErr(t, err, ipam.ErrAddressInUse, had.String(), "remove those networks first")
		case err != nil:
			t.Errorf("no network has a gateway there, and it gets none: %v", err)
		case got == had:
			t.Errorf("it gets %v, which a container of another host has", got)
		}
		if !there {
			continue
		}
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: had})
		if got, err := gateway(second); got != had {
			t.Errorf("nobody else has %v, and it gets %v, %v", had, got, err)
		}
		wantErr(t, c.ip(other, cidr, had), ipam.ErrAddressInUse, c.name(back))
	}
}

// A host is forgotten with a network, whose gateway another host gives to a container. A further network of the host that is back
// names that gateway: it is refused, and told whose space it is in; once nobody else has it, it is granted. An engine that starts is
// granted it whatever it is: it has it.
func TestNamedGatewayOfAForgottenHost(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for _, there := range []bool{true, false} {
		c, back, first, had := forgottenGateway(t, cidr, there)
		other := (back + 1) % 3
		c.comeBack(other)
		c.ask(back, docker(cidr)) // its engine has started
		again := &ipam.AddressRequest{Network: c.makes(back, cidr, ipam.PoolRequest{Sticky: ipam.StickyNone}), Purpose: ipam.ForGateway, Address: had}
		if there {
			wantErr(t, c.ask(back, again).Err, ipam.ErrAddressInUse, had.String(), c.name(other), "remove those networks first")
			c.ask(back, &ipam.Greeting{})
			if r := c.ask(back, &ipam.AddressRequest{Network: first, Purpose: ipam.ForGateway, Address: had}); r.Err != nil {
				t.Errorf("its engine starts: %v", r.Err)
			}
			c.ask(back, docker(cidr))
		} else {
			wantErr(t, c.ask(back, again).Err, ipam.ErrAddressInUse, had.String(), c.name(other))
		}
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: had})
		if r := c.ask(back, again); r.Err != nil {
			t.Errorf("nobody else has %v: %v", had, r.Err)
		}
		if err := c.ip(other, cidr, had); err == nil {
			t.Errorf("another host gets the gateway %v", had)
		}
	}
}

// A host that has its own gateway on a network is forgotten, and a network of another host shares that address as the gateway of all
// hosts from then on. There is no conflict when the host is back, whether it hears of one thing after the other or of all at once,
// and further networks of it get a gateway.
func TestGatewayThatIsSharedMeanwhile(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for _, whole := range []bool{false, true} {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		back := c.order()[2]
		other := (back + 1) % 3
		n := c.ask(back, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Pool.Network
		had := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
		c.wait(10 * time.Second)
		c.die(back)
		c.giveUp(other, back)
		if r := c.ask(other, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayAddr, GatewayAddr: had}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if whole {
			c.forgetSlots(back)
		}
		c.comeBack(other)
		for range 3 {
			c.call(back, &ipam.HostAddresses{})
			c.wait(20 * time.Second)
		}
		if got := c.conflicts(back); len(got) > 0 {
			t.Errorf("as a whole %t: %+v", whole, c.status(back).Problems)
		}
		second := c.ask(back, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Sticky: ipam.StickyNone}).Pool.Network
		if r := c.ask(back, &ipam.AddressRequest{Network: second, Purpose: ipam.ForGateway}); r.Err != nil {
			t.Errorf("as a whole %t: %v", whole, r.Err)
		}
		for i := range c.peers {
			wantErr(t, c.ip(i, cidr, had), ipam.ErrAddressReserved)
		}
		c.check()
	}
}

// unkeptRouter returns three hosts of which one was forgotten and is back, with a network whose router, which an operator named,
// is not kept back yet again, and a plain one.
func unkeptRouter(t *testing.T) (c *lockstep, back int, plain ipam.Network, router netip.Addr) {
	t.Helper()
	c = newAwaiting(t)
	c.run(time.Minute, c.agreed)
	back = c.order()[2]
	other := (back + 1) % 3
	cidr := prefix("10.60.0.0/29")
	router = address("10.60.0.1")
	c.lists(back)
	c.lists(back)
	n := c.makes(back, cidr, ipam.PoolRequest{})
	if r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: router}); r.Err != nil {
		t.Fatal(r.Err)
	}
	plain = c.makes(back, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	c.wait(time.Minute)
	kept := on(cidr.String())
	kept.Gateways = []netip.Addr{router}
	c.lists(back, kept, on(cidr.String()))
	c.die(back)
	c.giveUp(other, back)
	c.comesAndGoes(other, cidr)
	c.wait(5 * time.Minute)
	c.comeBack(other)
	return c, back, plain, router
}

// A host is forgotten, what its networks kept back goes with another host's network, and it comes back. Neither a container nor
// another network gets the router that a network of the host keeps back, as its last list tells (seed 16260521760940708669 of
// TestSimLaden).
func TestRouterOfAHostThatIsBackIsChosenForNobody(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		c, back, plain, router := unkeptRouter(t)
		cidr := plain.Pool
		q := ipam.AddressRequest{Network: plain, Purpose: ipam.ForContainer}
		wantErr(t, c.ask(back, &ipam.AddressRequest{Network: plain, Purpose: ipam.ForContainer, Address: router}).Err, ipam.ErrAddressReserved, "reserved as gateway by a network of this host")
		if gateway {
			q = ipam.AddressRequest{Network: c.makes(back, cidr, ipam.PoolRequest{Sticky: ipam.StickyNone}), Purpose: ipam.ForGateway}
		}
		for range 5 { // all that there are
			if r := c.ask(back, &q); r.Err != nil {
				t.Fatal(r.Err)
			} else if r.Address.Address.Addr() == router {
				t.Fatalf("gateway %t: %v is granted", gateway, router)
			}
			q.Network, q.Purpose = plain, ipam.ForContainer
		}
	}
}

// A network goes, and one without what it kept back is made on its subnet before the next list: that is not kept back again, as
// more space becomes the host's.
func TestRouterOfANetworkThatWentIsNotKept(t *testing.T) {
	const cidr = "10.50.0.0/24"
	router := address("10.50.0.1")
	for _, containers := range []int{1, 60, 150} {
		h := withSocket(t)
		look(h)
		q := ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr), Gateway: ipam.GatewayNone}
		n := h.Call(&q).Pool.Network
		h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: router})
		kept := on(cidr)
		kept.Gateways = []netip.Addr{router}
		h.Now = h.Now.Add(2 * time.Minute)
		look(h, kept)
		release(h, n, router)
		h.Call(&ipam.PoolRelease{Network: n})
		q.Sticky = ipam.StickyNone
		n = h.Call(&q).Pool.Network
		for range containers {
			if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if rs, err := h.Machine().Reservations(""); err != nil || slices.ContainsFunc(rs, func(r ipam.ReservationStatus) bool { return r.First == router }) {
			t.Errorf("with %d containers: %+v, %v", containers, rs, err)
		}
	}
}
