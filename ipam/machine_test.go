package ipam_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func address(s string) netip.Addr  { return netip.MustParseAddr(s) }

// net makes a network on a subnet, as docker network create --subnet does.
func network(t testing.TB, h *machinetest.Host, cidr string) ipam.Network {
	t.Helper()
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr)})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Pool.Network
}

// run starts a container of that name.
func run(t testing.TB, h *machinetest.Host, n ipam.Network, name string) netip.Addr {
	t.Helper()
	r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Address.Address.Addr()
}

func claim(h *machinetest.Host, n ipam.Network, a, name string) error {
	return h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name, Address: address(a)}).Err
}

func release(h *machinetest.Host, n ipam.Network, a netip.Addr) {
	h.Call(&ipam.AddressRelease{Network: n, Address: a})
}

func wantErr(t testing.TB, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestFirstAddresses(t *testing.T) {
	for _, c := range []struct{ cidr, first, second string }{
		{"10.50.0.0/24", "10.50.0.1", "10.50.0.2"},
		{"10.50.0.0/30", "10.50.0.1", "10.50.0.2"},
		{"10.50.0.0/31", "10.50.0.0", "10.50.0.1"},
		{"10.50.0.7/32", "10.50.0.7", ""},
		{"10.0.0.0/8", "10.0.0.1", "10.0.0.2"},
		{"128.0.0.0/2", "128.0.0.1", "128.0.0.2"},
		{"fd00::/64", "fd00::1", "fd00::2"},
		{"fd00::/126", "fd00::1", "fd00::2"},
		{"fd00::/127", "fd00::", "fd00::1"},
		{"fd00::9/128", "fd00::9", ""},
	} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, c.cidr)
		if a := run(t, h, n, "one"); a != address(c.first) {
			t.Errorf("%s: first address %v, want %s", c.cidr, a, c.first)
		}
		r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "two"})
		switch {
		case c.second == "":
			wantErr(t, r.Err, ipam.ErrNoAddress, c.cidr, "its only address is held by container one")
		case r.Err != nil || r.Address.Address.Addr() != address(c.second):
			t.Errorf("%s: second address %v, %v, want %s", c.cidr, r.Address.Address, r.Err, c.second)
		}
		h.CheckDisk()
	}
}

func TestFullAndFreedAgain(t *testing.T) {
	for _, c := range []struct {
		cidr string
		n    int
	}{{"10.50.0.0/28", 14}, {"10.50.0.0/24", 254}, {"fd00::/120", 255}} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, c.cidr)
		seen := map[netip.Addr]bool{}
		var last netip.Addr
		for i := range c.n {
			last = run(t, h, n, fmt.Sprint("c", i))
			if seen[last] {
				t.Fatalf("%v handed out twice", last)
			}
			seen[last] = true
		}
		r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "more"})
		wantErr(t, r.Err, ipam.ErrNoAddress, c.cidr, fmt.Sprint(c.n, " are in use"))
		release(h, n, last)
		if a := run(t, h, n, "more"); a != last {
			t.Errorf("%s: got %v, the only free one is %v", c.cidr, a, last)
		}
		if len(h.Notes) == 0 || h.Notes[0].Kind != ipam.NotePressed {
			t.Errorf("%s: nothing says that the address had not rested", c.cidr)
		}
		h.CheckDisk()
	}
}

func TestRangeLimitsChoiceNotClaims(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/16"), Range: prefix("10.50.200.0/30")})
	n := r.Pool.Network
	for i, want := range []string{"10.50.200.0", "10.50.200.1", "10.50.200.2", "10.50.200.3"} {
		if a := run(t, h, n, fmt.Sprint("c", i)); a != address(want) {
			t.Errorf("got %v, want %s: the ends of a range are usable", a, want)
		}
	}
	full := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "more"})
	wantErr(t, full.Err, ipam.ErrNoAddress, "10.50.200.0/30", "10.50.0.0/16")
	if err := claim(h, n, "10.50.3.3", "fixed"); err != nil {
		t.Errorf("claim outside of the range: %v", err)
	}
	wantErr(t, claim(h, n, "10.51.0.1", "out"), ipam.ErrAddressOutOfRange, "10.51.0.1", "10.50.0.0/16")
	wantErr(t, claim(h, n, "10.50.0.0", "out"), ipam.ErrAddressReserved, "network address")
	wantErr(t, claim(h, n, "10.50.255.255", "out"), ipam.ErrAddressReserved, "broadcast address")
	h.CheckDisk()
}

func TestTwoClaimsOfOneAddress(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	if err := claim(h, n, "10.50.0.77", "web"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, claim(h, n, "10.50.0.77", "db"), ipam.ErrAddressInUse, "10.50.0.77", "10.50.0.0/24", "container web", "host-a")
	if err := claim(h, n, "10.50.0.77", "web"); err != nil {
		t.Errorf("the holder itself: %v", err)
	}
	release(h, n, address("10.50.0.77"))
	release(h, n, address("10.50.0.77"))
	if err := claim(h, n, "10.50.0.77", "db"); err != nil {
		t.Errorf("after the release: %v", err)
	}
	h.CheckDisk()
}

func TestClaimByMAC(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	mac := ipam.MAC{2, 0, 0, 0, 0, 1}
	ask := func() error {
		return h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: mac, Address: address("10.50.0.9")}).Err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, ask(), ipam.ErrAddressInUse, "MAC 02:00:00:00:00:01")
	h.Now = h.Now.Add(time.Minute)
	if err := ask(); err != nil {
		t.Errorf("a container that comes back after a lost release: %v", err)
	}
	h.Call(&ipam.Inventory{Networks: []ipam.InventoryNetwork{{
		ID: "n", Subnets: []netip.Prefix{n.Pool},
		Endpoints: []ipam.InventoryEndpoint{{Address: address("10.50.0.9"), Container: strings.Repeat("a", 64), Name: "web", MAC: mac}},
	}}})
	wantErr(t, ask(), ipam.ErrAddressInUse, "container web (aaaaaaaaaaaa)")
}

func TestSticky(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	web := run(t, h, n, "web")
	db := run(t, h, n, "db")
	mac := ipam.MAC{2, 0, 0, 0, 0, 7}
	byMAC := func() netip.Addr {
		return h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: mac}).Address.Address.Addr()
	}
	old := byMAC()
	for _, a := range []netip.Addr{web, db, old} {
		release(h, n, a)
	}
	h.Restart()
	if a := run(t, h, n, "db"); a != db {
		t.Errorf("db comes back at %v, it had %v", a, db)
	}
	if a := byMAC(); a != old {
		t.Errorf("MAC comes back at %v, it had %v", a, old)
	}
	if a := run(t, h, n, "web"); a != web {
		t.Errorf("web comes back at %v, it had %v", a, web)
	}
	n.Sticky = ipam.StickyNone
	release(h, n, web)
	if a := run(t, h, n, "web"); a == web {
		t.Errorf("web comes back at %v on a network without stickiness", a)
	}
}

// A network that is removed and made again, as compose down and up do, brings
// its containers back to their addresses.
func TestStickyOverNetworkRemoval(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	gw := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	run(t, h, n, "a")
	b := run(t, h, n, "b")
	release(h, n, address("10.50.0.2"))
	release(h, n, b)
	release(h, n, gw)
	h.Call(&ipam.PoolRelease{Network: n})
	n = network(t, h, "10.50.0.0/24")
	if a := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr(); a != gw {
		t.Errorf("gateway comes back at %v, it was %v", a, gw)
	}
	if a := run(t, h, n, "b"); a != b {
		t.Errorf("b comes back at %v, it had %v", a, b)
	}
}

// Least recently freed first, and never used before freed.
func TestOrderOfReuse(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	var all []netip.Addr
	for i := range 14 {
		all = append(all, run(t, h, n, fmt.Sprint("c", i)))
	}
	order := []int{5, 2, 9, 0}
	for _, i := range order {
		h.Now = h.Now.Add(time.Second)
		release(h, n, all[i])
	}
	h.Restart()
	for _, i := range order {
		if a := run(t, h, n, fmt.Sprint("new", i)); a != all[i] {
			t.Errorf("got %v, %v has rested longest", a, all[i])
		}
	}
}

func TestGateways(t *testing.T) {
	for _, c := range []struct {
		mode    ipam.GatewayMode
		addr    string
		data    string // what RequestPool says
		asked   string // what RequestAddress says
		first   string // what a container gets
		claimed string // an address that is reserved
	}{
		{ipam.GatewayHost, "", "", "10.50.0.1", "10.50.0.2", ""},
		{ipam.GatewayNone, "", "", "10.50.0.254", "10.50.0.1", ""},
		{ipam.GatewayFirst, "", "10.50.0.1", "10.50.0.1", "10.50.0.2", "10.50.0.1"},
		{ipam.GatewayLast, "", "10.50.0.254", "10.50.0.254", "10.50.0.1", "10.50.0.254"},
		{ipam.GatewayAddr, "10.50.0.9", "10.50.0.9", "10.50.0.9", "10.50.0.1", "10.50.0.9"},
	} {
		h := machinetest.NewHost(t, ipam.Config{})
		q := ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Gateway: c.mode}
		if c.addr != "" {
			q.GatewayAddr = address(c.addr)
		}
		r := h.Call(&q)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		data := ""
		if r.Pool.Gateway.IsValid() {
			data = r.Pool.Gateway.Addr().String()
		}
		if data != c.data {
			t.Errorf("%v: pool comes with gateway %q, want %q", c.mode, data, c.data)
		}
		n := r.Pool.Network
		for range 2 {
			if a := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address; a != netip.PrefixFrom(address(c.asked), 24) {
				t.Errorf("%v: gateway %v, want %s", c.mode, a, c.asked)
			}
		}
		if a := run(t, h, n, "web"); a != address(c.first) {
			t.Errorf("%v: container at %v, want %s", c.mode, a, c.first)
		}
		if c.claimed != "" {
			wantErr(t, claim(h, n, c.claimed, "x"), ipam.ErrAddressReserved, "gateway")
		}
		h.Restart()
		replay := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address(c.asked)})
		if replay.Err != nil {
			t.Errorf("%v: replay: %v", c.mode, replay.Err)
		}
		release(h, n, address(c.asked))
		if err := claim(h, n, c.asked, "x"); err == nil {
			t.Errorf("%v: the gateway could be claimed after the engine released it", c.mode)
		}
		h.CheckDisk()
	}
}

func TestExplicitGatewayAndAuxiliaryAddressesAreShared(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	for _, r := range []string{"10.50.0.0/25", "10.50.0.128/25"} {
		n := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix(r)}).Pool.Network
		if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.254")}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.5")}); r.Err != nil {
			t.Fatal(r.Err)
		}
		wantErr(t, claim(h, n, "10.50.0.5", "x"), ipam.ErrAddressReserved, "auxiliary")
	}
	n := network(t, h, "10.50.0.0/24")
	if err := claim(h, n, "10.50.0.6", "web"); err != nil {
		t.Fatal(err)
	}
	r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.6")})
	wantErr(t, r.Err, ipam.ErrAddressInUse, "container web")
	h.CheckDisk()
}

func TestReplayAfterRestart(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	a := run(t, h, n, "web")
	h.Restart()
	again := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24")})
	if again.Err != nil || again.Pool.Network != n {
		t.Fatalf("pool: %+v, %v", again.Pool, again.Err)
	}
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: a}); r.Err != nil || !r.Address.Ticket.IsZero() {
		t.Errorf("held address: %+v, %v", r.Address, r.Err)
	}
	// An endpoint that was lost is held again, and freed with its release.
	lost := address("10.50.0.99")
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: lost}); r.Err != nil {
		t.Errorf("lost address: %v", r.Err)
	}
	wantErr(t, claim(h, n, "10.50.0.99", "x"), ipam.ErrAddressInUse)
	release(h, n, lost)
	if err := claim(h, n, "10.50.0.99", "x"); err != nil {
		t.Error(err)
	}
	if s := h.Machine().Status(h.Now); len(s.Networks) != 1 || s.Networks[0].Count != 1 {
		t.Errorf("networks after a replay: %+v", s.Networks)
	}
	h.Now = h.Now.Add(2 * time.Minute) // no part of the network is refused any more
	h.Call(&ipam.PoolRelease{Network: n})
	if s := h.Machine().Status(h.Now); len(s.Networks) != 1 {
		t.Errorf("networks after a release below containers: %+v", s.Networks)
	}
	release(h, n, a)
	release(h, n, lost)
	if s := h.Machine().Status(h.Now); len(s.Networks) != 0 {
		t.Errorf("networks after the release: %+v", s.Networks)
	}
}

func TestInventoryMendsLeaks(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	a := run(t, h, n, "web")
	if r := h.Call(inventory(h, n)); r.Again == 0 {
		t.Error("a young address that no endpoint has: no second look wanted")
	}
	h.Now = h.Now.Add(31 * time.Second)
	h.Call(inventory(h, n))
	if s := h.Machine().Status(h.Now); s.Pools[0].Held != 1 {
		t.Fatal("freed after one look")
	}
	h.Now = h.Now.Add(10 * time.Second)
	h.Call(inventory(h, n))
	if s := h.Machine().Status(h.Now); s.Pools[0].Held != 1 {
		t.Fatal("freed after two looks that are not the grace apart")
	}
	h.Now = h.Now.Add(30 * time.Second)
	if r := h.Call(inventory(h, n)); r.Again != 0 {
		t.Errorf("all is settled, yet another look is wanted after %v", r.Again)
	}
	if s := h.Machine().Status(h.Now); s.Pools[0].Held != 0 {
		t.Fatal("not freed")
	}
	if b := run(t, h, n, "web"); b != a {
		t.Errorf("web comes back at %v, it had %v", b, a)
	}
}

func TestInventoryTakesInWhatWasLost(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := ipam.Network{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.0/24")}
	e := ipam.InventoryEndpoint{Address: address("10.50.0.200"), Container: strings.Repeat("b", 64), Name: "old"}
	h.Call(inventory(h, n, e))
	wantErr(t, claim(h, n, "10.50.0.200", "x"), ipam.ErrAddressInUse, "container old (bbbbbbbbbbbb)")
	e.Name = "renamed"
	h.Call(inventory(h, n, e))
	wantErr(t, claim(h, n, "10.50.0.200", "x"), ipam.ErrAddressInUse, "container renamed")
	h.CheckDisk()
}

func TestNewPeerAwaitsInventory(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	n := network(t, h, "10.50.0.0/24")
	ask := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}
	if _, answered := h.Try(ask); answered {
		t.Fatal("an address was chosen before the engine said what is in use")
	}
	h.Now = h.Now.Add(time.Second)
	list := inventory(h, n, ipam.InventoryEndpoint{Address: address("10.50.0.1"), Container: "x"})
	list.After = h.Mark()
	h.Machine().Step(h.Now, &ipam.Call{ID: 1 << 40, Deadline: h.Now.Add(time.Second), Request: list})
	r, answered := h.Tick()
	if answered {
		t.Fatal("answered in the tick, not with the inventory")
	}
	if a := run(t, h, n, "db"); a != address("10.50.0.3") {
		t.Errorf("got %v, want 10.50.0.3 behind the one in use and web's (%v)", a, r)
	}
}

func TestClients(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	if r := h.Call(&ipam.PoolCreation{CIDR: prefix("10.80.0.0/24"), Name: "vm"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	one := h.Call(&ipam.ClientRequest{Pool: "vm", ID: "vm-1"})
	again := h.Call(&ipam.ClientRequest{Pool: "10.80.0.0/24", ID: "vm-1"})
	if one.Err != nil || one.Address.Address != again.Address.Address || !again.Address.Ticket.IsZero() {
		t.Fatalf("allocate twice: %v %v, %v %v", one.Address, one.Err, again.Address, again.Err)
	}
	fixed := &ipam.ClientRequest{Pool: "vm", ID: "vm-1", Address: address("10.80.0.44")}
	for range 2 {
		if r := h.Call(fixed); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	wantErr(t, h.Call(&ipam.ClientRequest{Pool: "vm", ID: "vm-2", Address: address("10.80.0.44")}).Err, ipam.ErrAddressInUse, `"vm-1"`)
	wantErr(t, h.Call(&ipam.ClientRequest{Pool: "nope", ID: "vm-2"}).Err, ipam.ErrPoolNotFound, "nope")
	for _, id := range []string{"K\xfcche", "K\ufffdche"} { // the second is what JSON makes of the first
		wantErr(t, h.Call(&ipam.ClientRequest{Pool: "vm", ID: id}).Err, ipam.ErrBadRequest, "not UTF-8")
		wantErr(t, h.Call(&ipam.ReserveRequest{Pool: "vm", First: fixed.Address, Last: fixed.Address, Kind: chronicle.KindKeptForName, Note: id}).Err, ipam.ErrBadRequest, "not UTF-8")
	}
	if r, err := h.Machine().List(h.Now, ipam.Listing{Holder: "vm-1"}); len(r.Addresses) != 2 {
		t.Errorf("lookup: %+v, %v", r.Addresses, err)
	}
	wantErr(t, h.Call(&ipam.PoolRemoval{Pool: "vm"}).Err, ipam.ErrPoolInUse, "2 addresses")
	if r := h.Call(&ipam.FreeRequest{ID: "vm-1", Address: address("10.80.0.44")}); len(r.Addresses) != 1 {
		t.Errorf("free one: %+v", r.Addresses)
	}
	for _, want := range []int{1, 0} {
		if r := h.Call(&ipam.FreeRequest{ID: "vm-1"}); len(r.Addresses) != want || r.Err != nil {
			t.Errorf("free all: %+v, %v", r.Addresses, r.Err)
		}
	}
	n := ipam.Network{Space: ipam.Local, Pool: prefix("10.80.0.0/24"), Range: prefix("10.80.0.0/24")}
	a := run(t, h, n, "web")
	wantErr(t, h.Call(&ipam.FreeRequest{Address: a}).Err, ipam.ErrAddressInUse, "container web")
	release(h, n, a)
	if r := h.Call(&ipam.PoolRemoval{Pool: "vm"}); r.Err != nil {
		t.Error(r.Err)
	}
	h.CheckDisk()
}

// A container that runs under a holder's name keeps its address, and does not keep
// that of the holder.
func TestFreeOfAHolderNamedAsAContainer(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	web := run(t, h, n, "web")
	alloc := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "web"})
	free := &ipam.FreeRequest{ID: "web"}
	if r := h.Call(free); r.Err != nil || len(r.Addresses) != 1 || r.Addresses[0].Address != alloc.Address.Address.Addr() {
		t.Errorf("freed %+v, %v", r.Addresses, r.Err)
	}
	wantErr(t, h.Call(free).Err, ipam.ErrAddressInUse, "container web")
	wantErr(t, claim(h, n, web.String(), "db"), ipam.ErrAddressInUse, "container web")
	h.CheckDisk()
}

// What the host itself has is in use: the gateways of its bridges, which the
// engine does not list, and its own address on a LAN.
func TestHostAddresses(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	tell := func(addrs ...string) {
		q := &ipam.HostAddresses{}
		for _, a := range addrs {
			q.Addresses = append(q.Addresses, netip.PrefixFrom(address(a), 28))
		}
		h.Call(q)
	}
	tell("192.168.1.10", "10.50.0.1", "10.32.0.7")
	lan := network(t, h, "192.168.1.8/29")
	wantErr(t, claim(h, lan, "192.168.1.10", "x"), ipam.ErrAddressInUse, "has it on an interface")
	// A network that was lost: its bridge still has the gateway.
	n := network(t, h, "10.50.0.0/24")
	if a := run(t, h, n, "web"); a == address("10.50.0.1") {
		t.Error("the gateway of a bridge was handed out")
	}
	for range 2 {
		if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.1")}); r.Err != nil {
			t.Errorf("replay of the gateway: %v", r.Err)
		}
	}
	if a := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr(); a != address("10.50.0.1") {
		t.Errorf("the gateway is %v", a)
	}
	if r := h.Call(&ipam.PoolRequest{Space: ipam.Local}); r.Err != nil || r.Pool.Network.Pool.Contains(address("10.32.0.7")) {
		t.Errorf("chose %v, %v", r.Pool.Network.Pool, r.Err)
	}
	h.Restart()
	// The host has another address now; the old one is free a while later.
	for range 3 {
		tell("192.168.1.11", "10.50.0.1")
		h.Now = h.Now.Add(20 * time.Second)
	}
	tell("192.168.1.11", "10.50.0.1")
	if err := claim(h, lan, "192.168.1.10", "x"); err != nil {
		t.Error(err)
	}
	wantErr(t, claim(h, lan, "192.168.1.11", "y"), ipam.ErrAddressInUse)
	// A container and the host with one address: never silent.
	if err := claim(h, lan, "192.168.1.12", "z"); err != nil {
		t.Fatal(err)
	}
	tell("192.168.1.12")
	if s := h.Machine().Status(h.Now); len(s.Problems) == 0 || s.Problems[0].Code != "conflict" || s.Problems[0].Address != address("192.168.1.12") {
		t.Errorf("problems: %+v", s.Problems)
	}
	h.CheckDisk()
}
