package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// wide makes a network on an IPv6 subnet wider than a /64.
func wide(t *testing.T, h *machinetest.Host, subnet, part string) ipam.Network {
	t.Helper()
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(part), Subnet: prefix(subnet)})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Pool.Network
}

// A network has its gateway and auxiliary addresses outside the pool for itself: no list of the engine and no release changes
// anything about them. A container is given none there.
func TestWideSubnet(t *testing.T) {
	h := withSocket(t)
	look(h)
	n, other := wide(t, h, "fd00:d0cc::/32", "fd00:d0cc:a::/64"), wide(t, h, "fd00:d0cc::/32", "fd00:d0cc:b::/64")
	for _, purpose := range []ipam.Purpose{ipam.ForGateway, ipam.ForUnmarked} {
		for _, on := range []ipam.Network{n, other, n} { // nobody is in another's way
			r := h.Call(&ipam.AddressRequest{Network: on, Purpose: purpose, Address: address("fd00:d0cc::1")})
			if r.Err != nil || r.Address.Address.Addr() != address("fd00:d0cc::1") || !r.Address.Ticket.IsZero() {
				t.Errorf("purpose %d: %+v, %v", purpose, r.Address, r.Err)
			}
		}
	}
	wantErr(t, claim(h, n, "fd00:d0cc::9", "x"), ipam.ErrAddressOutOfRange, "fd00:d0cc::9 is not in fd00:d0cc:a::/64")
	wantErr(t, claim(h, n, "fd00:d0cc:b::9", "x"), ipam.ErrAddressOutOfRange, "is not in fd00:d0cc:a::/64")
	if err := claim(h, n, "fd00:d0cc:a::9", "x"); err != nil {
		t.Error(err)
	}
	release(h, n, address("fd00:d0cc::1"))
	listed := on("fd00:d0cc:a::/64", ipam.InventoryEndpoint{Address: address("fd00:d0cc:a::9"), Container: "x", Name: "x"})
	look(h, listed)
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, listed)
	look(h, listed)
	if s := stateOf(t, h, "fd00:d0cc:a::9"); s.State != "held" {
		t.Errorf("%+v", s)
	}
	h.CheckDisk()
}

// An engine that starts gets again what its networks have for themselves, also of a peer with a new database.
func TestWideSubnetIsReplayed(t *testing.T) {
	n := ipam.Network{Space: ipam.Local, Pool: prefix("fd00:d0cc:a::/64"), Range: prefix("fd00:d0cc:a::/64"), Subnet: prefix("fd00:d0cc::/32")}
	for _, noMAC := range []bool{false, true} {
		h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: noMAC})
		h.Call(&ipam.Greeting{})
		h.Call(&ipam.Blindness{}) // it answers nobody: it starts
		for _, purpose := range []ipam.Purpose{ipam.ForGateway, ipam.ForUnmarked} {
			if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: purpose, Address: address("fd00:d0cc::1")}); r.Err != nil {
				t.Errorf("purpose %d, noMAC %v: %v", purpose, noMAC, r.Err)
			}
		}
	}
}

// Where a container's request looks like a network's, it is refused (R30): another host may have the address.
func TestWideSubnetWithoutMAC(t *testing.T) {
	h := withoutMAC(t)
	n := wide(t, h, "fd00:d0cc::/32", "fd00:d0cc:a::/64")
	waits(t, h, plainly(n, "fd00:d0cc::2"))
	if r := answeredBy(t, h); r.Err != nil || r.Address.Address.Addr() != address("fd00:d0cc::2") {
		t.Errorf("an auxiliary address: %+v, %v", r.Address, r.Err)
	}
	look(h, on("fd00:d0cc:a::/64"))
	wantErr(t, h.Call(plainly(n, "fd00:d0cc::3")).Err, ipam.ErrBadRequest, "engine 29")
}
