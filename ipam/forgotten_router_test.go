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
	c.call(i, &ipam.Inventory{Partial: true, AllNetworks: true})
	c.wait(time.Second)
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
	look(h)
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
		kept := on(cidr.String())
		kept.Gateways = []netip.Addr{router}
		for range 2 {
			c.lists(back, kept, on(cidr.String()))
			c.wait(2 * time.Second)
		}
		q := ipam.AddressRequest{Network: plain, Purpose: ipam.ForContainer}
		wantErr(t, c.ask(back, &ipam.AddressRequest{Network: plain, Purpose: ipam.ForContainer, Address: router}).Err, ipam.ErrAddressReserved, "reserved as gateway")
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

// A network goes, and one without what it kept back is made on its subnet before the engine has listed more than its networks:
// that is not kept back again, as more space becomes the host's.
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
		h.Call(&ipam.Inventory{Partial: true, AllNetworks: true})
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
