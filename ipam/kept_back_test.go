package ipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// name asks for an auxiliary address, or replays an endpoint, as the engine does.
func name(t *testing.T, h *machinetest.Host, n ipam.Network, a string) {
	t.Helper()
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address(a)}); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// keeping is a network as the engine lists it, with auxiliary addresses.
func keeping(cidr string, auxiliary ...string) ipam.InventoryNetwork {
	n := on(cidr)
	for _, a := range auxiliary {
		n.Auxiliary = append(n.Auxiliary, address(a))
	}
	return n
}

// The same in a cluster, in which nobody ends what others may name as well.
func TestInventoriesOlderThanRemovals(t *testing.T) {
	c := newAwaiting(t)
	c.found()
	cidr := prefix("10.50.0.0/24")
	n := local(cidr)
	list := func(networks ...ipam.InventoryNetwork) *ipam.Inventory {
		return &ipam.Inventory{Networks: networks}
	}
	for range 3 {
		for i := range c.peers {
			c.call(i, list(on(cidr.String())))
		}
		c.wait(time.Second)
	}
	c.ask(1, &ipam.PoolRelease{Network: n})
	c.call(1, list())
	c.wait(time.Second)
	var all []netip.Addr
	for range 4 { // docker compose up, and down
		c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
		gateway := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
		if !slices.Contains(all, gateway) {
			all = append(all, gateway)
		}
		lives := on(cidr.String())
		lives.Gateways = []netip.Addr{gateway}
		for range 2 {
			c.wait(time.Minute)
			c.call(1, list(lives))
		}
		old := list(lives)
		old.After = c.mark(1)
		c.wait(20 * time.Millisecond)
		c.ask(1, &ipam.AddressRelease{Network: n, Address: gateway})
		c.ask(1, &ipam.PoolRelease{Network: n})
		c.call(1, old)
		c.wait(time.Second)
		c.call(1, list())
		c.wait(time.Second)
	}
	for _, a := range all {
		if err := c.ip(1, cidr, a); err != nil {
			t.Errorf("gateways were %v: %v", all, err)
		}
	}
}

// The same, where the address is kept for the container's name: it does not get what
// a network keeps back, and that is told, until an operator or the network gives way.
func TestKeptAddressTakenForAReplay(t *testing.T) {
	const a = "10.50.0.9"
	h := withSocket(t)
	look(h)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	if err := h.Call(keep(a, "web")).Err; err != nil {
		t.Fatal(err)
	}
	mustAsk(t, h, n, "web", 7, "")
	h.Call(&ipam.Greeting{})
	network(t, h, "10.50.0.0/24")
	network(t, h, "10.50.0.0/24")
	name(t, h, n, a)
	h.Now = h.Now.Add(time.Minute)
	release(h, n, address(a))
	look(h, on("10.50.0.0/24"), keeping("10.50.0.0/24", a))
	for _, want := range []string{"", a} {
		wantErr(t, ask(h, n, "web", 8, want).Err, ipam.ErrAddressReserved, "reserved for web", "auxiliary", "ringlet reserve rm "+a)
	}
	if got := problemCodes(h.Machine().Status(h.Now)); !slices.Contains(got, "conflict") {
		t.Errorf("the problems are %v", got)
	}
	h.Now = h.Now.Add(time.Minute)
	look(h, on("10.50.0.0/24"))
	if got := mustAsk(t, h, n, "web", 9, "").Address.Addr(); got != address(a) {
		t.Errorf("the network is gone, and web has %v", got)
	}
}

// A network names an address that a holder outside Docker has, which is a conflict:
// the holder keeps it, however often it asks.
func TestAuxiliaryAddressOfAClient(t *testing.T) {
	h := withSocket(t)
	look(h)
	network(t, h, "10.50.0.0/24")
	ask := &ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "printer"}
	first := h.Call(ask).Address.Address
	h.Now = h.Now.Add(time.Minute)
	look(h, keeping("10.50.0.0/24", first.Addr().String()))
	if again := h.Call(ask); again.Err != nil || again.Address.Address != first {
		t.Errorf("it has %v, and got %v, %v", first, again.Address.Address, again.Err)
	}
	if s := h.Machine().Status(h.Now); s.Pools[0].Held != 1 {
		t.Errorf("it holds %d addresses", s.Pools[0].Held)
	}
}

// What was released and is reserved since, here or by another host, is no conflict
// with a list that was begun before.
func TestInventoryOlderThanAReservation(t *testing.T) {
	for what, reserve := range map[string]func(h *machinetest.Host){
		"a gateway": func(h *machinetest.Host) {
			h.Call(&ipam.AddressRequest{Network: network(t, h, "10.50.0.0/24"), Purpose: ipam.ForGateway, Address: address("10.50.0.9")})
		},
		"excluded": func(h *machinetest.Host) {
			h.Call(&ipam.ReserveRequest{First: address("10.50.0.9"), Last: address("10.50.0.9"), Kind: chronicle.KindExcluded})
		},
	} {
		h := withSocket(t)
		look(h)
		n := network(t, h, "10.50.0.0/24")
		mustAsk(t, h, n, "old", 7, "10.50.0.9")
		h.Now = h.Now.Add(time.Hour)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "old", 7)))
		old := inventory(h, n, listed("10.50.0.9", "old", 7))
		old.After = h.Mark()
		h.Now = h.Now.Add(10 * time.Millisecond)
		release(h, n, address("10.50.0.9"))
		reserve(h)
		h.Now = h.Now.Add(10 * time.Millisecond)
		h.Call(old)
		if s := h.Machine().Status(h.Now); len(s.Problems) > 0 {
			t.Errorf("%s: %+v", what, s.Problems)
		}
		wantErr(t, claim(h, n, "10.50.0.9", "x"), ipam.ErrAddressReserved)
	}
}

func TestInventoryOlderThanAnothersReservation(t *testing.T) {
	c := newAwaiting(t)
	c.found()
	cidr := prefix("10.50.0.0/24")
	list := func(endpoints ...ipam.InventoryEndpoint) *ipam.Inventory {
		return &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(cidr.String(), endpoints...)}}
	}
	for range 3 {
		for i := range c.peers {
			c.call(i, list())
		}
		c.wait(time.Second)
	}
	var a netip.Addr
	for r := range c.peers[0].machine.State().Pools[0].Ring.OwnedBy(c.peers[1].machine.Self()) {
		a = addr.Nth(cidr, r.Start)
	}
	if err := c.ip(1, cidr, a); err != nil {
		t.Fatal(err)
	}
	c.wait(time.Hour)
	old := list(listed(a.String(), "web", 9))
	old.After = c.mark(1)
	c.wait(5 * time.Millisecond)
	c.ask(1, &ipam.AddressRelease{Network: local(cidr), Address: a})
	n := c.ask(2, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Pool.Network
	if r := c.ask(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: a}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.run(time.Minute, c.agreed)
	c.call(1, old)
	if s := c.status(1); len(s.Problems) > 0 {
		t.Errorf("%+v", s.Problems)
	}
}

// The clock was ahead when the engine replayed an endpoint to a new database: a list
// that has it is no older for that.
func TestInventoryAfterAClockWasSetBack(t *testing.T) {
	h := withSocket(t)
	h.Now = h.Now.Add(2 * time.Hour)
	h.Call(&ipam.Greeting{})
	n := network(t, h, "10.50.0.0/24")
	name(t, h, n, "10.50.0.9")
	h.Now = h.Now.Add(-2 * time.Hour)
	for range 2 {
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 9)))
	}
	wantErr(t, claim(h, n, "10.50.0.9", "x"), ipam.ErrAddressInUse, "web")
}
