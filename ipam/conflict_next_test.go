package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// clash is a conflict, with the advice that the status gives, and each way that the advice names.
type clash struct {
	what   string
	advice string
	ran    []string
	scene  func(t *testing.T, way int) (status func() ipam.Status, follow func())
}

// clashes has each two uses of an address that cannot both be right.
func clashes() []clash {
	const gone = "the engine has this endpoint without a container: remove it with docker network disconnect --force net web"
	return []clash{
		{"an excluded address", "stop that container, or run ringlet exclude rm 10.50.0.9", []string{"docker rm -f web", "ringlet exclude rm 10.50.0.9"}, besideReserved(chronicle.KindExcluded, "4f3a")},
		{"an address that is reserved for another", "stop that container, or run ringlet reserve rm 10.50.0.9", []string{"docker rm -f web", "ringlet reserve rm 10.50.0.9"}, besideReserved(chronicle.KindKeptForName, "4f3a")},
		{"an excluded address, without a container", gone + ", or run ringlet exclude rm 10.50.0.9", []string{"docker network disconnect --force net web", "ringlet exclude rm 10.50.0.9"}, besideReserved(chronicle.KindExcluded, "")},
		{"an address of the host", "remove the address from the interface of this host, or stop that container", []string{"ip address del 10.50.0.9/24", "docker rm -f web"}, besideHost},
		{"an auxiliary address", "stop that container, or remove that network", []string{"docker rm -f web", "docker network rm other"}, besideNetwork},
		{"what another container here has", "stop that container, or the other one", []string{"docker rm -f web", "docker rm -f db"}, besideTwin},
		{"what a container on another host has", "stop that container, or the other holder on HOST", []string{"docker rm -f web", "docker rm -f db on HOST"}, besideOther(false)},
		{"what an evicted host may use", "stop that container, or bring that host back; if it is gone for good, stop that container, run ringlet forget HOST, and start it again", []string{"docker rm -f web", "ringlet serve on HOST, without the container", "docker rm -f web; ringlet forget HOST; docker run web"}, besideOther(true)},
	}
}

// relists has the engine of a host list that, twice: what one list lacks is there until the next.
func relists(h *machinetest.Host, networks ...ipam.InventoryNetwork) {
	for range 2 {
		h.Now = h.Now.Add(time.Minute)
		h.Call(&ipam.Inventory{Networks: networks})
	}
}

const clashNet, clashAt = "10.50.0.0/24", "10.50.0.9"

func web(container string) ipam.InventoryEndpoint {
	return ipam.InventoryEndpoint{Address: address(clashAt), Container: container, Name: "web"}
}

// besideReserved is an endpoint on an address that an operator reserves.
func besideReserved(kind chronicle.Kind, container string) func(*testing.T, int) (func() ipam.Status, func()) {
	return func(t *testing.T, way int) (func() ipam.Status, func()) {
		t.Helper()
		h := withSocket(t)
		network(t, h, clashNet)
		relists(h, on(clashNet))
		if err := h.Call(&ipam.ReserveRequest{First: address(clashAt), Last: address(clashAt), Kind: kind, Note: "db"}).Err; err != nil {
			t.Fatal(err)
		}
		h.Call(&ipam.Inventory{Networks: []ipam.InventoryNetwork{on(clashNet, web(container))}})
		return host(h, func() {
			if way == 0 {
				relists(h, on(clashNet))
				return
			}
			if err := h.Call(unreserve(clashAt, clashAt, kind)).Err; err != nil {
				t.Fatal(err)
			}
			relists(h, on(clashNet, web(container)))
		})
	}
}

// besideHost is a container on an address that the host has got since.
func besideHost(t *testing.T, way int) (func() ipam.Status, func()) {
	t.Helper()
	h := withSocket(t)
	n := network(t, h, clashNet)
	relists(h, on(clashNet))
	if err := claim(h, n, clashAt, "web"); err != nil {
		t.Fatal(err)
	}
	relists(h, on(clashNet, web("4f3a")))
	hostHas(h, clashAt+"/24")
	return host(h, func() {
		if way == 0 {
			hostHas(h)
			relists(h, on(clashNet, web("4f3a")))
			return
		}
		relists(h, on(clashNet))
	})
}

// besideNetwork is a container on an address that a network of its host names as auxiliary.
func besideNetwork(t *testing.T, way int) (func() ipam.Status, func()) {
	t.Helper()
	h := withSocket(t)
	n := network(t, h, clashNet)
	relists(h, on(clashNet))
	if err := claim(h, n, clashAt, "web"); err != nil {
		t.Fatal(err)
	}
	other := ipam.InventoryNetwork{ID: "n2", Name: "other", Subnets: []netip.Prefix{prefix(clashNet)}, Auxiliary: []netip.Addr{address(clashAt)}}
	relists(h, on(clashNet, web("4f3a")), other)
	return host(h, func() {
		if way == 0 {
			relists(h, on(clashNet), other)
			return
		}
		relists(h, on(clashNet, web("4f3a")))
	})
}

// besideTwin is two endpoints of one engine that have one address.
func besideTwin(t *testing.T, way int) (func() ipam.Status, func()) {
	t.Helper()
	h := withSocket(t)
	network(t, h, clashNet)
	db := ipam.InventoryEndpoint{Address: address(clashAt), Container: "db00", Name: "db"}
	relists(h, on(clashNet, db, web("4f3a")))
	return host(h, func() {
		if way == 0 {
			relists(h, on(clashNet, db))
			return
		}
		relists(h, on(clashNet, web("4f3a")))
	})
}

// besideOther is a container on an address that another host holds, or held before it was evicted.
func besideOther(evicted bool) func(*testing.T, int) (func() ipam.Status, func()) {
	return func(t *testing.T, way int) (func() ipam.Status, func()) {
		t.Helper()
		c := newAwaiting(t)
		c.found()
		cidr := prefix(clashNet)
		look := func(here, there bool) {
			for range 4 {
				for i := range c.peers {
					n := on(clashNet)
					if i == 0 && here {
						n.Endpoints = append(n.Endpoints, web("4f3a"))
					}
					if i == 2 && there {
						n.Endpoints = append(n.Endpoints, ipam.InventoryEndpoint{Address: address(clashAt), Container: "db00", Name: "db"})
					}
					if !c.dead[i] {
						c.call(i, &ipam.Inventory{Networks: []ipam.InventoryNetwork{n}})
					}
				}
				c.wait(20 * time.Second)
			}
		}
		look(false, false)
		for i := range c.peers {
			c.network(i, cidr)
		}
		if err := c.ip(2, cidr, address(clashAt)); err != nil {
			t.Fatal(err)
		}
		look(false, true)
		if evicted {
			c.die(2)
			c.mustAsk(0, &ipam.EvictRequest{Peer: "host-2"})
		}
		look(true, true)
		return c.at(0), func() {
			switch {
			case way == 0:
				look(false, true)
			case way == 2:
				look(false, false)
				c.mustAsk(0, &ipam.ForgetRequest{Peer: "host-2"})
				if err := c.ip(0, cidr, address(clashAt)); err != nil {
					t.Error(err)
				}
				look(true, false)
			case evicted:
				c.heal()
				c.start(2)
				look(true, false)
			default:
				look(true, false)
			}
		}
	}
}
