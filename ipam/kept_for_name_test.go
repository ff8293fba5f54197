package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// A container is on two networks of one pool, and an address is kept for it: it has that
// on the one, and any on the other.
func TestKeptForAContainerOnTwoNetworks(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	other := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.0/25")}).Pool.Network
	if err := h.Call(keep("10.50.0.200", "web")).Err; err != nil {
		t.Fatal(err)
	}
	first := mustAsk(t, h, n, "web", 7, "").Address.Addr()
	second := mustAsk(t, h, other, "web", 8, "").Address.Addr()
	if first != address("10.50.0.200") || second == first {
		t.Errorf("it has %v and %v", first, second)
	}
}

// Two addresses are kept for containers of one name, which run on two hosts: each has one,
// and a third, on another host, is told who has them.
func TestTwoKeptForOneName(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	for _, a := range []string{"10.50.0.200", "10.50.0.201"} {
		if err := c.ask(0, keep(a, "web")).Err; err != nil {
			t.Fatal(err)
		}
	}
	web := func(i int) ipam.Reply {
		return c.ask(i, &ipam.AddressRequest{Network: local(prefix("10.50.0.0/24")), Purpose: ipam.ForContainer, Name: "web"})
	}
	for i, want := range []string{"10.50.0.200", "10.50.0.201"} {
		if r := web(i); r.Err != nil || r.Address.Address.Addr() != address(want) {
			t.Errorf("on %s: %v, %v", c.name(i), r.Address.Address, r.Err)
		}
	}
	wantErr(t, web(2).Err, ipam.ErrAddressInUse, "held by container web")
}

// A container with a kept address stops while nobody listens and starts again at once. There is
// one network only, so it cannot be on two.
func TestKeptAfterALostRelease(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	if err := h.Call(keep("10.50.0.200", "web")).Err; err != nil {
		t.Fatal(err)
	}
	first := mustAsk(t, h, n, "web", 7, "").Address.Addr()
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		h.Call(inventory(h, n, listed(first.String(), "web", 7)))
	}
	// stopped, the release never came; docker start web
	r, ok := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 9}})
	if ok && r.Err == nil && r.Address.Address.Addr() != first {
		t.Errorf("web gets %v, and %v is kept for it", r.Address.Address, first)
	}
}

// A container with a kept address is renamed and stops while nobody listens. Whoever has its new name next, which may
// be that container itself, gets another address, and the kept one goes back to its name.
func TestKeptForAFormerNameAfterALostRelease(t *testing.T) {
	for _, mac := range []byte{9, 7} {
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		look(h, on("10.50.0.0/24"))
		if err := h.Call(keep("10.50.0.200", "web")).Err; err != nil {
			t.Fatal(err)
		}
		mustAsk(t, h, n, "web", 7, "10.50.0.200")
		for range 3 {
			h.Now = h.Now.Add(time.Minute)
			look(h, on("10.50.0.0/24", listed("10.50.0.200", "db", 7))) // docker rename web db
		}
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24")) // stopped, the release never came
		db := mustAsk(t, h, n, "db", mac, "").Address.Addr()
		if db == address("10.50.0.200") {
			t.Fatalf("db (%d) gets %v, which is kept for web", mac, db)
		}
		for range 3 {
			h.Now = h.Now.Add(time.Minute)
			look(h, on("10.50.0.0/24", listed(db.String(), "db", mac)))
		}
		mustAsk(t, h, n, "web", 10, "10.50.0.200")
	}
}

// An address is to be kept for the holder outside Docker that has it, and the host is cut off before
// that is decided. The holder has this address however often it asks, and no other.
func TestHolderAsksWhileItsReservationIsUndecided(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	c.network(0, cidr)
	alloc := func(at netip.Addr) ipam.Reply {
		return c.ask(0, &ipam.ClientRequest{Pool: cidr.String(), Address: at, ID: "vm"})
	}
	first := alloc(netip.Addr{})
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	a := first.Address.Address.Addr()
	c.die(1, 2)
	c.call(0, keep(a.String(), "vm"))
	for _, at := range []netip.Addr{{}, a, {}} {
		if again := alloc(at); again.Err != nil || again.Address.Address != first.Address.Address {
			t.Errorf("it has %v, and got %v, %v", first.Address.Address, again.Address.Address, again.Err)
		}
	}
}
