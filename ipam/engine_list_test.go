package ipam_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// More schedules that once handed an address to two containers: those in which
// only the engine's list can tell what is in use.

// withSocket is a peer that can ask its engine.
func withSocket(t testing.TB) *machinetest.Host {
	t.Helper()
	return machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
}

// look brings an inventory of the networks, a while later.
func look(h *machinetest.Host, networks ...ipam.InventoryNetwork) {
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Inventory{Networks: networks})
	h.Now = h.Now.Add(time.Second)
}

// on is a network on the subnet as the engine lists it.
func on(cidr string, endpoints ...ipam.InventoryEndpoint) ipam.InventoryNetwork {
	return ipam.InventoryNetwork{ID: "n1", Name: "net", Subnets: []netip.Prefix{prefix(cidr)}, Endpoints: endpoints}
}

// plain is the network that is made with the subnet and no options.
func plain(cidr string) ipam.Network {
	return ipam.Network{Space: ipam.Local, Pool: prefix(cidr), Range: prefix(cidr)}
}

// A new database, and a network that lives. A second one on its subnet is
// asked for and taken back, since the network driver refuses it, with looks and
// restarts at any time between: the gateway of the first stays its own, and is
// free when the engine has no network any more.
func TestGatewayOfANetworkThatWasLost(t *testing.T) {
	const gw = "10.50.0.1"
	lives := on("10.50.0.0/24", listed("10.50.0.9", "web", 9))
	lives.Gateways = []netip.Addr{address(gw)}
	n := plain("10.50.0.0/24")
	steps := map[string]func(h *machinetest.Host){
		"pool": func(h *machinetest.Host) { network(t, h, "10.50.0.0/24") },
		"gateway": func(h *machinetest.Host) {
			h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address(gw)})
		},
		"undo": func(h *machinetest.Host) {
			release(h, n, address(gw))
			h.Call(&ipam.PoolRelease{Network: n})
		},
		"look":    func(h *machinetest.Host) { look(h, lives) },
		"greet":   func(h *machinetest.Host) { h.Call(&ipam.Greeting{}) },
		"restart": func(h *machinetest.Host) { h.Restart() },
	}
	for _, schedule := range []string{
		"look pool gateway look undo",
		"look pool gateway undo",
		"pool gateway look undo",
		"pool gateway undo look",
		"look greet pool gateway look undo",
		"look greet pool gateway undo look",
		"look restart pool gateway undo",
		"look restart pool gateway undo look",
		"look restart pool gateway look undo",
		"look pool restart gateway look undo",
		"look restart pool restart gateway look undo",
		"look pool gateway look undo restart look",
		"look pool gateway undo pool gateway look undo",
	} {
		for _, later := range []string{"", "look"} {
			t.Run(schedule+" "+later, func(t *testing.T) {
				h := withSocket(t)
				for step := range strings.FieldsSeq(schedule + " " + later) {
					steps[step](h)
				}
				if r, ok := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "x", Address: address(gw)}); ok && r.Err == nil {
					t.Fatal("the gateway of a network that lives was granted to a container")
				}
				for range 5 {
					h.Now = h.Now.Add(30 * time.Second)
					look(h)
				}
				if err := claim(h, n, gw, "x"); err != nil {
					t.Errorf("all networks are gone, and the gateway is not free: %v", err)
				}
				h.CheckDisk()
			})
		}
	}
}

// The bridge of a network that was lost has its gateway on an interface, and
// the engine names it: it is this host's gateway again, also while the
// interface is away.
func TestGatewayThatTheEngineNames(t *testing.T) {
	h := withSocket(t)
	hostHas(h, "10.50.0.1/24")
	lives := on("10.50.0.0/24", listed("10.50.0.9", "web", 9))
	look(h, lives)
	if s, err := h.Machine().Who(h.Now, address("10.50.0.1")); err != nil || s.State != "host" {
		t.Errorf("nobody says that it is a gateway: %+v, %v", s, err)
	}
	lives.Gateways = []netip.Addr{address("10.50.0.1")}
	look(h, lives)
	if s, err := h.Machine().Who(h.Now, address("10.50.0.1")); err != nil || s.State != "gateway" {
		t.Errorf("%+v, %v", s, err)
	}
	for range 4 {
		h.Now = h.Now.Add(20 * time.Second)
		hostHas(h)
	}
	wantErr(t, claim(h, plain("10.50.0.0/24"), "10.50.0.1", "x"), ipam.ErrAddressInUse, "gateway")
	h.CheckDisk()
	// Its replay says that all engines share it. Engines before 29 do not
	// survive an error here.
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Gateway: ipam.GatewayFirst})
	if r.Err != nil || r.Pool.Gateway.Addr() != address("10.50.0.1") {
		t.Errorf("%+v, %v", r.Pool, r.Err)
	}
	wantErr(t, claim(h, plain("10.50.0.0/24"), "10.50.0.1", "x"), ipam.ErrAddressReserved, "gateway")
	h.CheckDisk()
}

// A swarm's manager asks for addresses that no engine lists, so networks of this kind are refused. A database of an
// earlier release that has one opens.
func TestNetworksOfASwarm(t *testing.T) {
	h := withSocket(t)
	look(h)
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Global, Pool: prefix("10.50.0.0/24")}).Err, ipam.ErrBadRequest, "--config-only", "--scope swarm")
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Global}).Err, ipam.ErrBadRequest, "--config-only")
	if s := h.Machine().Status(h.Now); len(s.Pools)+len(s.Networks) > 0 {
		t.Fatalf("a refused network left %+v, %+v", s.Pools, s.Networks)
	}
	n := plain("10.50.0.0/24")
	n.Space = ipam.Global
	h.Disk["network\x00\x00"+string(n.ID())] = []byte{1, 1}
	h.Restart()
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Global, Pool: n.Pool}).Err, ipam.ErrBadRequest, "--config-only")
}

// A new database waits for the engine's list however long that takes, also
// over a restart, and no longer than there is something to wait for.
func TestNewDatabaseWaits(t *testing.T) {
	n := plain("10.50.0.0/24")
	ask := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}
	h := withSocket(t)
	for range 3 {
		h.Restart()
		if r, ok := h.Try(ask); ok {
			t.Fatalf("answered before the first list: %+v", r)
		}
		if s := h.Machine().Status(h.Now); s.Verdict != ipam.Degraded || s.Problems[0].Code != "inventory-awaited" {
			t.Errorf("%s, %+v", s.Verdict, s.Problems)
		}
		h.Now = h.Now.Add(19 * time.Second)
		if r, ok := h.Tick(); ok {
			t.Fatalf("answered before the deadline: %+v", r)
		}
		h.Now = h.Now.Add(2 * time.Second)
		r, ok := h.Tick()
		if !ok {
			t.Fatal("not answered at the deadline")
		}
		wantErr(t, r.Err, ipam.ErrNotReady)
	}
	h.CheckDisk()
	disk := maps.Clone(h.Disk)

	look(h)
	h.CheckDisk()
	h.Restart()
	run(t, h, n, "web")
	if s := h.Machine().Status(h.Now); s.Verdict != ipam.Fine {
		t.Errorf("%s, %+v", s.Verdict, s.Problems)
	}

	// The engine starts, or cannot be asked at all: nothing comes of waiting.
	h.Disk = disk
	h.Restart()
	if r, ok := h.Try(ask); ok {
		t.Fatalf("answered before the first list: %+v", r)
	}
	h.Call(&ipam.Blindness{})
	run(t, h, n, "db")
	h.Call(&ipam.Inventory{After: h.Mark(), Partial: true}) // now it can
	if r, ok := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "more"}); ok {
		t.Errorf("answered before the first list: %+v", r)
	}
}

// An inventory that is not complete: what it has is in use, what it lacks may
// be, too.
func TestPartialInventory(t *testing.T) {
	n := plain("10.50.0.0/24")
	partial := func(h *machinetest.Host, networks ...ipam.InventoryNetwork) {
		h.Now = h.Now.Add(30 * time.Second)
		h.Call(&ipam.Inventory{Partial: true, Networks: networks})
	}
	h := withSocket(t)
	partial(h, on("10.50.0.0/24", listed("10.50.0.1", "web", 1)))
	if r, ok := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "db"}); ok {
		t.Fatalf("an address was chosen before a complete list: %+v", r)
	}
	wantErr(t, claim(h, n, "10.50.0.1", "x"), ipam.ErrAddressInUse, "web")

	h = withSocket(t)
	look(h)
	n = network(t, h, "10.50.0.0/24")
	h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.1")})
	h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.5")})
	mustAsk(t, h, n, "web", 7, "10.50.0.9")
	for range 5 {
		partial(h)
		partial(h, on("10.51.0.0/24"))
	}
	if r, ok := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", Address: address("10.50.0.9")}); ok {
		t.Errorf("whether web has gone is told by a complete list alone, and it got %+v", r)
	}
	partial(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	for a, kind := range map[string]error{"10.50.0.1": ipam.ErrAddressReserved, "10.50.0.5": ipam.ErrAddressReserved, "10.50.0.9": ipam.ErrAddressInUse} {
		wantErr(t, ask(h, n, "x", 7, a).Err, kind)
	}
	if s := h.Machine().Status(h.Now); len(s.Networks) != 1 || s.Pools[0].Held != 1 {
		t.Errorf("networks %+v, pools %+v", s.Networks, s.Pools)
	}
}

// The process starts again under running containers. Until the engine has
// listed them, nobody can tell a container that is back from one with the same
// fixed MAC, or with the name that another had.
func TestTakeOverBeforeTheFirstLook(t *testing.T) {
	for _, c := range []struct {
		name string
		mac  byte
	}{{"db", 7}, {"", 7}, {"web", 8}, {"web", 7}} {
		h := withSocket(t)
		look(h)
		n := network(t, h, "10.50.0.0/24")
		mustAsk(t, h, n, "web", 7, "10.50.0.9")
		h.Now = h.Now.Add(time.Hour)
		h.Restart()
		network(t, h, "10.50.0.0/24")
		if got := mustAsk(t, h, n, c.name, c.mac, "").Address.Addr(); got == address("10.50.0.9") {
			t.Errorf("%+v was given the address before the first look", c)
		}
		q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: c.name, MAC: ipam.MAC{2, 0, 0, 0, 0, c.mac}, Address: address("10.50.0.9")}
		if r, ok := h.Try(q); ok {
			t.Errorf("%+v is answered before the first look: %+v", c, r)
		}
		h.Now = h.Now.Add(21 * time.Second)
		r, _ := h.Tick()
		wantErr(t, r.Err, ipam.ErrNotReady, "10.50.0.9", "web")
		disk := maps.Clone(h.Disk)

		look(h, on("10.50.0.0/24", listed("10.50.0.9", "old", 7)))
		wantErr(t, h.Call(q).Err, ipam.ErrAddressInUse, "old")

		// The holder has gone: the address waits for nobody.
		h.Disk = disk
		h.Restart()
		h.Try(q)
		look(h, on("10.50.0.0/24"))
		if s, err := h.Machine().Who(h.Now, q.Address); err != nil || s.State != "held" || s.Name != c.name || s.MAC != q.MAC.String() {
			t.Errorf("%+v waited, and the address is %+v, %v", c, s, err)
		}
	}
}

// onTwoNetworks is a host with two networks on one subnet, that are listed as networks.
func onTwoNetworks(t testing.TB) (h *machinetest.Host, n, other ipam.Network, networks []ipam.InventoryNetwork) {
	t.Helper()
	h = withSocket(t)
	n = network(t, h, "10.50.0.0/24")
	other = h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Sticky: ipam.StickyMAC}).Pool.Network
	networks = []ipam.InventoryNetwork{on("10.50.0.0/24"), on("10.50.0.0/24")}
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, networks...)
	return h, n, other, networks
}

// The engine asks for a container's IPv6 address, which takes until the end of the
// call, and has no endpoint yet: a list that lacks it does not have a container of
// another network on the subnet claim its IPv4 address.
func TestListWhileASecondAddressIsAwaited(t *testing.T) {
	h, n, other, networks := onTwoNetworks(t)
	mustAsk(t, h, n, "web", 7, "10.50.0.9")
	for range 3 {
		h.Now = h.Now.Add(10 * time.Second)
		look(h, networks...)
		wantErr(t, ask(h, other, "db", 8, "10.50.0.9").Err, ipam.ErrAddressInUse, "web")
	}
}

// An inventory that says what was known writes nothing.
func TestLookThatBringsNoNews(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	look(h)
	mustAsk(t, h, n, "web", 7, "10.50.0.9")
	for range 3 {
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	}
	list := inventory(h, n, listed("10.50.0.9", "web", 7))
	list.After = h.Mark()
	fx := h.Machine().Step(h.Now, &ipam.Call{ID: 1 << 40, Deadline: h.Now, Request: list})
	for _, r := range fx.Save {
		t.Errorf("written: %s %x = %x", r.Bucket, r.Key, r.Value)
	}
}

// One container, with its name and its fixed MAC, on two networks of a pool:
// it has two endpoints, and two addresses.
func TestOneContainerOnTwoNetworks(t *testing.T) {
	const cidr = "10.50.0.0/24"
	for _, socket := range []bool{true, false} {
		for _, ranges := range [][2]string{{cidr, "10.50.0.0/25"}, {cidr, cidr}} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprint("socket=", socket, " ranges=", ranges, " restart=", restart), func(t *testing.T) {
					h := machinetest.NewHost(t, ipam.Config{AwaitInventory: socket})
					look(h)
					var nets []ipam.Network
					for _, r := range ranges {
						p := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr), Range: prefix(r)})
						nets = append(nets, p.Pool.Network)
					}
					h.Now = h.Now.Add(time.Hour)
					look(h, on(cidr), on(cidr))
					first := mustAsk(t, h, nets[0], "web", 7, "").Address.Addr()
					if restart {
						h.Restart()
					}
					if second := mustAsk(t, h, nets[1], "web", 7, "").Address.Addr(); second == first {
						t.Errorf("both endpoints have %v", first)
					}
					r, ok := h.Try(&ipam.AddressRequest{Network: nets[1], Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 0, 0, 0, 0, 7}, Address: first})
					if ok && r.Err == nil {
						t.Errorf("%v is granted to a second endpoint that names it", first)
					}
					look(h, on(cidr, listed(first.String(), "web", 7)), on(cidr))
					if again := mustAsk(t, h, nets[0], "web", 7, "").Address.Addr(); again == first {
						t.Errorf("%v is listed, and granted again", first)
					}
				})
			}
		}
	}
}

// The same, where one of the networks was lost: both have one ID.
func TestOneContainerOnALostNetwork(t *testing.T) {
	h := withSocket(t)
	look(h, on("10.50.0.0/24"))
	n := network(t, h, "10.50.0.0/24")
	first := mustAsk(t, h, n, "web", 7, "").Address.Addr()
	look(h, on("10.50.0.0/24"), on("10.50.0.0/24")) // before the endpoint appears
	if second := mustAsk(t, h, n, "web", 7, "").Address.Addr(); second == first {
		t.Errorf("both endpoints have %v", first)
	}
	wantErr(t, ask(h, n, "web", 7, first.String()).Err, ipam.ErrAddressInUse)
}

// A container with a fixed MAC asks again for what it was answered, on the
// only network of the pool, or on the same of two.
func TestSameEndpointAsksAgain(t *testing.T) {
	const cidr = "10.50.0.0/24"
	for _, networks := range []int{1, 2} {
		h := machinetest.NewHost(t, ipam.Config{})
		var nets []ipam.Network
		for _, r := range []string{cidr, "10.50.0.0/25"}[:networks] {
			nets = append(nets, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr), Range: prefix(r)}).Pool.Network)
		}
		n := nets[networks-1]
		got := []ipam.AddressGrant{mustAsk(t, h, n, "web", 7, "")}
		h.Restart() // the network is on disk with the address
		got = append(got, mustAsk(t, h, n, "web", 7, ""), mustAsk(t, h, n, "web", 7, got[0].Address.Addr().String()))
		if len(slices.CompactFunc(got, func(a, b ipam.AddressGrant) bool { return a.Address == b.Address })) != 1 {
			t.Errorf("on one of %d networks: got %+v", networks, got)
		}
		h.CheckDisk()
	}
}
