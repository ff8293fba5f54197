package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// start starts a container with a name, a MAC or both, and returns its address.
func start(t *testing.T, h *machinetest.Host, n ipam.Network, name string, mac byte) netip.Addr {
	t.Helper()
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name}
	if mac != 0 {
		q.MAC = ipam.MAC{2, 66, 10, 0, 0, mac}
	}
	r := h.Call(q)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Address.Address.Addr()
}

// list has the engine list one container.
func list(h *machinetest.Host, subnet string, a netip.Addr, name string, mac byte) {
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Inventory{Networks: []ipam.InventoryNetwork{{ID: "n", Name: "net", Subnets: []netip.Prefix{prefix(subnet)}, Endpoints: []ipam.InventoryEndpoint{
		{Address: a, Container: "0123456789abcdef", Name: name, MAC: ipam.MAC{2, 66, 10, 0, 0, mac}},
	}}}})
}

// A container that has ended gets its former address again: by its name, and by its MAC, whichever of the two the engine sent
// then, and sends now. Others were started in between.
func TestFormerAddressByNameThenMAC(t *testing.T) {
	const n, m = "web", 7
	for _, tt := range []struct {
		what    string
		sent    string // name that the engine sent at first
		name    string // that it sends now
		mac     byte
		restart bool // of the engine, by another release
		listed  bool // so that its name is known
	}{
		{"an earlier engine stays", "", "", m, false, true},
		{"it is replaced by a later one, fixed MAC", "", n, m, true, true},
		{"it is replaced by a later one, another MAC", "", n, m + 1, true, true},
		{"it is replaced by a later one, no MAC", "", n, 0, true, true},
		{"a later engine stays", n, n, m, false, true},
		{"a later engine, another MAC", n, n, m + 1, false, true},
		{"a later engine is replaced by an earlier one, fixed MAC", n, "", m, true, true},
		{"another name, fixed MAC, as the engine was replaced", "", "web2", m, false, true},
		{"it is replaced by a later one, fixed MAC, never listed", "", n, m, true, false},
	} {
		h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
		h.Call(&ipam.Inventory{})
		net := network(t, h, "10.50.0.0/24")
		start(t, h, net, "", 100)
		a := start(t, h, net, tt.sent, m)
		if tt.listed {
			list(h, "10.50.0.0/24", a, n, m)
		}
		h.Call(&ipam.AddressRelease{Network: net, Address: a})
		if tt.restart {
			h.Call(&ipam.Greeting{})
			h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24")})
		}
		if got := start(t, h, net, tt.name, tt.mac); got != a {
			t.Errorf("%s: it had %v and gets %v", tt.what, a, got)
		}
		if err := h.Machine().Check(h.Now); err != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}

// A container that was started with an address outside of its network's range is made again without one, as tools for updates
// do: it has its address again. On another network of the pool it gets one of the range there.
func TestFormerAddressOutsideTheRange(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	ranged := func(sub string) ipam.Network {
		t.Helper()
		r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix(sub)})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Pool.Network
	}
	one, two := ranged("10.50.0.128/25"), ranged("10.50.0.64/26")
	if err := claim(h, one, "10.50.0.20", "web"); err != nil {
		t.Fatal(err)
	}
	release(h, one, address("10.50.0.20"))
	if got := run(t, h, two, "web"); !prefix("10.50.0.64/26").Contains(got) {
		t.Errorf("on the other network it gets %v", got)
	}
	if got := run(t, h, one, "web"); got != address("10.50.0.20") {
		t.Errorf("it had 10.50.0.20 and gets %v", got)
	}
	// On an engine that sends no names the MAC tells who it is.
	fixed := &ipam.AddressRequest{Network: one, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 66, 10, 0, 0, 9}, Address: address("10.50.0.21")}
	if err := h.Call(fixed).Err; err != nil {
		t.Fatal(err)
	}
	release(h, one, address("10.50.0.21"))
	if got := start(t, h, one, "", 9); got != address("10.50.0.21") {
		t.Errorf("it had 10.50.0.21 and gets %v", got)
	}
	// A container on both networks of the pool stops and starts: it has on each what it had there.
	a, b := run(t, h, one, "both"), run(t, h, two, "both")
	release(h, one, a)
	release(h, two, b)
	if got := run(t, h, one, "both"); !prefix("10.50.0.128/25").Contains(got) {
		t.Errorf("on one network it had %v, and on the other %v, and on the one gets %v", a, b, got)
	}
}
