package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

func TestWithdraw(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	ask := func(name string) ipam.AddressGrant {
		return h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name}).Address
	}
	g := ask("web")
	h.Call(&ipam.Withdrawal{Ticket: g.Ticket})
	if s := h.Machine().Status(h.Now); s.Pools[0].Held != 0 || s.Pools[0].Resting != 0 {
		t.Errorf("after a withdrawal: %+v", s.Pools[0])
	}
	g = ask("web")
	release(h, n, g.Address.Addr())
	again := ask("db") // never used before freed: another address
	h.Call(&ipam.Withdrawal{Ticket: g.Ticket})
	h.Call(&ipam.Withdrawal{Ticket: g.Ticket})
	back := ask("web")
	h.Call(&ipam.Withdrawal{Ticket: g.Ticket}) // of an earlier grant of the same address
	if err := claim(h, n, back.Address.Addr().String(), "x"); err == nil {
		t.Error("an old ticket took the address from its new holder")
	}
	if again.Address == back.Address {
		t.Error("one address twice")
	}
	h.CheckDisk()
}

// The same when the clock is set in between.
func TestReleaseThatEchoesOnAnotherClock(t *testing.T) {
	for i, by := range []time.Duration{time.Hour, -time.Hour, time.Hour, -time.Hour} {
		h := ipamtest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.50.0.0/31")
		a := run(t, h, n, "old")
		run(t, h, n, "other")
		sides := []ipam.Network{n, n}
		sides[i/2].Space = ipam.Global // the manager's
		release(h, sides[0], a)
		h.SetClock(by, true)
		if b := run(t, h, n, "new"); b != a {
			t.Fatalf("got %v, only %v is free", b, a)
		}
		release(h, sides[1], a)
		wantErr(t, claim(h, n, a.String(), "third"), ipam.ErrAddressInUse, "container new")
	}
}

func inventory(h *ipamtest.Host, n ipam.Network, endpoints ...ipam.InventoryEndpoint) *ipam.Inventory {
	return &ipam.Inventory{Begun: h.Now, Networks: []ipam.InventoryNetwork{{ID: "n1", Name: "net", Subnets: []netip.Prefix{n.Pool}, Endpoints: endpoints}}}
}

// Swarm releases an address twice. The second release must not free what
// another container was granted in between.
func TestReleaseThatEchoes(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/31")
	a := run(t, h, n, "old")
	run(t, h, n, "other")
	manager := n
	manager.Space = ipam.Global
	release(h, manager, a)
	h.Now = h.Now.Add(50 * time.Millisecond)
	if b := run(t, h, n, "new"); b != a {
		t.Fatalf("got %v, only %v is free", b, a)
	}
	h.Now = h.Now.Add(50 * time.Millisecond)
	release(h, n, a)
	wantErr(t, claim(h, n, a.String(), "third"), ipam.ErrAddressInUse, "container new")
	h.Now = h.Now.Add(time.Second)
	release(h, n, a)
	if err := claim(h, n, a.String(), "third"); err != nil {
		t.Errorf("a release that is none's echo: %v", err)
	}
}

// Of many releases each has its echo, for as long as one may follow and no longer.
func TestEchoesOfManyReleases(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{Echo: 250 * time.Millisecond})
	n := network(t, h, "10.50.0.0/24")
	manager := n
	manager.Space = ipam.Global
	var freed []netip.Addr
	for i := range 60 {
		freed = append(freed, run(t, h, n, fmt.Sprintf("old-%d", i)))
	}
	const apart = 20 * time.Millisecond
	for _, a := range freed {
		release(h, manager, a)
		h.Now = h.Now.Add(apart)
	}
	for i, a := range freed {
		if err := claim(h, n, a.String(), fmt.Sprintf("new-%d", i)); err != nil {
			t.Fatal(err)
		}
		release(h, n, a)
		age := time.Duration(len(freed)-i) * apart
		if err := claim(h, n, a.String(), "third"); (err != nil) != (age < 250*time.Millisecond) {
			t.Errorf("a release %v after the manager's: the address is claimed again with %v", age, err)
		}
		release(h, n, a)
	}
	h.CheckDisk()
}
