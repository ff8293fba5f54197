package ipam_test

import (
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

func TestWithdraw(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
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

func inventory(h *machinetest.Host, n ipam.Network, endpoints ...ipam.InventoryEndpoint) *ipam.Inventory {
	return &ipam.Inventory{Networks: []ipam.InventoryNetwork{{ID: "n1", Name: "net", Subnets: []netip.Prefix{n.Pool}, Endpoints: endpoints}}}
}
