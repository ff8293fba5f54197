package ipam_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// Who reads that no subnet is left reads what is in the way: else nobody thinks of a setting, or of a VPN's route.
func TestWhatIsInTheWayOfSubnets(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{
		Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.60.0.0/22")}, Avoid: []netip.Prefix{prefix("10.60.1.0/24"), prefix("192.168.0.0/16")}},
	})
	h.Call(&ipam.HostAddresses{
		Addresses: []netip.Prefix{prefix("10.60.2.5/24"), prefix("172.16.0.5/16")},
		Routes:    []ipam.HostRoute{{To: prefix("10.60.2.0/24"), OnLink: true}, {To: prefix("10.60.3.128/25")}},
	})
	if r := h.Call(&ipam.PoolRequest{Space: ipam.Local}); r.Err != nil {
		t.Fatal(r.Err)
	}
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local}).Err, ipam.ErrNoSubnet, "no free /24 subnet is left in 10.60.0.0/22 "+
		"(in the way: 1 pool; RINGLET_AVOID with 10.60.1.0/24; addresses and routes of this host with 10.60.2.0/24, 10.60.3.128/25): name one")
}

func TestChosenSubnets(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.60.0.0/23")}, Avoid: []netip.Prefix{prefix("192.168.0.0/16")}}})
	choose := func() (ipam.Network, error) {
		r := h.Call(&ipam.PoolRequest{Space: ipam.Local})
		return r.Pool.Network, r.Err
	}
	one, err := choose()
	if err != nil {
		t.Fatal(err)
	}
	two, err := choose()
	if err != nil {
		t.Fatal(err)
	}
	if one.Pool.Overlaps(two.Pool) {
		t.Fatalf("chose %v and %v", one.Pool, two.Pool)
	}
	_, err = choose()
	wantErr(t, err, ipam.ErrNoSubnet, "/24", "10.60.0.0/23 (in the way: 2 pools):", "--subnet")
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Bits: 22}).Err, ipam.ErrNoSubnet, "no /22 subnet fits into 10.60.0.0/23", "size=")
	h.Call(&ipam.PoolRelease{Network: one})
	three, err := choose()
	if err != nil || three.Pool != one.Pool {
		t.Errorf("after a release: %v, %v, want %v", three.Pool, err, one.Pool)
	}
	h.CheckDisk()
}

func TestChosenSubnetAvoids(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{
		Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.32.0.0/12")}, ULA: true, Avoid: []netip.Prefix{prefix("10.32.0.0/13"), prefix("10.40.0.128/25")}},
	})
	network(t, h, "10.40.1.0/26")
	for i, want := range []string{"10.40.2.0/24", "10.40.3.0/24"} {
		r := h.Call(&ipam.PoolRequest{Space: ipam.Local})
		if r.Err != nil || r.Pool.Network.Pool != prefix(want) {
			t.Errorf("choice %d: %v, %v, want %s", i, r.Pool.Network.Pool, r.Err, want)
		}
	}
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Bits: 26})
	if r.Err != nil || r.Pool.Network.Pool.Bits() != 26 {
		t.Errorf("size 26: %v, %v", r.Pool.Network.Pool, r.Err)
	}
	six := h.Call(&ipam.PoolRequest{Space: ipam.Local, V6: true})
	if six.Err != nil || six.Pool.Network.Pool.Bits() != 64 || !prefix("fd00::/8").Contains(six.Pool.Network.Pool.Addr()) {
		t.Errorf("IPv6: %v, %v", six.Pool.Network.Pool, six.Err)
	}
}

// No subnet is chosen that the host has a route to, which an engine would ask again
// for where the route is to one of its links. By routes of all of the universe hosts
// reach the containers of one another, and of pools the cluster knows.
func TestChosenSubnetHasNoRoute(t *testing.T) {
	on := func(to string) ipam.HostRoute { return ipam.HostRoute{To: prefix(to), OnLink: true} }
	via := func(to string) ipam.HostRoute { return ipam.HostRoute{To: prefix(to)} }
	for what, c := range map[string]struct {
		universe string
		routes   []ipam.HostRoute
		want     []string
	}{
		"links":             {"10.60.0.0/22", []ipam.HostRoute{on("10.60.0.0/24"), on("10.60.2.128/32"), on("10.61.0.0/16")}, []string{"10.60.1.0/24", "10.60.3.0/24"}},
		"by another host":   {"10.60.0.0/22", []ipam.HostRoute{via("10.60.1.0/24"), via("10.60.2.0/23")}, []string{"10.60.0.0/24"}},
		"to all":            {"10.60.0.0/23", []ipam.HostRoute{via("10.60.0.0/23"), via("10.0.0.0/8"), via("0.0.0.0/1")}, []string{"10.60.0.0/24", "10.60.1.0/24"}},
		"all on a link":     {"10.60.0.0/23", []ipam.HostRoute{on("10.0.0.0/8")}, nil},
		"to chosen subnets": {"10.60.0.0/22", []ipam.HostRoute{on("10.60.0.0/24"), via("10.60.2.0/24")}, []string{"10.60.1.0/24", "10.60.3.0/24"}},
	} {
		t.Run(what, func(t *testing.T) {
			h := machinetest.NewHost(t, ipam.Config{Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix(c.universe)}}})
			h.Call(&ipam.HostAddresses{Routes: c.routes})
			for _, want := range c.want {
				r := h.Call(&ipam.PoolRequest{Space: ipam.Local})
				if r.Err != nil || r.Pool.Network.Pool != prefix(want) {
					t.Errorf("%v, %v, want %s", r.Pool.Network.Pool, r.Err, want)
				}
				// Its bridge has a route, and so has what is behind other hosts.
				c.routes = append(c.routes, on(want))
				h.Call(&ipam.HostAddresses{Routes: c.routes})
			}
			wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local}).Err, ipam.ErrNoSubnet, c.universe, "in the way")

			h.Call(&ipam.HostAddresses{})
			if r := h.Call(&ipam.PoolRequest{Space: ipam.Local}); (r.Err == nil) != (what != "to all") {
				t.Errorf("without routes: %v", r.Err)
			}
		})
	}
}

// A pool that nobody uses any more makes room, though a route to it is still there.
func TestRoutesOfAPool(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.60.0.0/24")}}})
	first := h.Call(&ipam.PoolRequest{Space: ipam.Local})
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	h.Call(&ipam.HostAddresses{Routes: []ipam.HostRoute{{To: first.Pool.Network.Pool}}})
	h.Call(&ipam.PoolRelease{Network: first.Pool.Network})
	if r := h.Call(&ipam.PoolRequest{Space: ipam.Local}); r.Err != nil || r.Pool.Network.Pool != first.Pool.Network.Pool {
		t.Errorf("%v, %v", r.Pool.Network.Pool, r.Err)
	}
}

// The engine asks again and again while an answer overlaps a route of its
// host. A pool by name is always the same, so it must end in an error.
func TestNamedPoolDoesNotSpinTheEngine(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	ask := func() error { return h.Call(&ipam.PoolRequest{Space: ipam.Local, PoolName: "lab"}).Err }
	var err error
	asked := 0
	for err == nil && asked < 100 {
		err = ask()
		asked++
	}
	wantErr(t, err, ipam.ErrPoolOverlap, "--subnet")
	if asked > 20 {
		t.Errorf("refused after %d requests only", asked)
	}
}

func TestPoolNames(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	first := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.70.0.0/24"), PoolName: "lab"})
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	joined := h.Call(&ipam.PoolRequest{Space: ipam.Local, PoolName: "lab"})
	if joined.Err != nil || joined.Pool.Network.Pool != prefix("10.70.0.0/24") {
		t.Fatalf("joined %v, %v", joined.Pool.Network.Pool, joined.Err)
	}
	other := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.71.0.0/24"), PoolName: "lab"})
	wantErr(t, other.Err, ipam.ErrBadRequest, "lab", "10.70.0.0/24")
	second := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.70.0.0/24"), PoolName: "plant"})
	wantErr(t, second.Err, ipam.ErrBadRequest, "lab", "plant")
	six := h.Call(&ipam.PoolRequest{Space: ipam.Local, V6: true, Pool: prefix("fd00:7::/64"), PoolName: "lab"})
	if six.Err != nil {
		t.Errorf("the IPv6 half of a dual-stack network: %v", six.Err)
	}
	h.CheckDisk()
}

// An address is written as a name is, and is none: whoever gives one is told so.
func TestPoolNamedAsAnAddress(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	for _, r := range []ipam.Request{
		&ipam.PoolCreation{CIDR: prefix("10.70.0.0/24"), Name: "10.70.0.1"},
		&ipam.PoolRequest{Space: ipam.Local, PoolName: "10.70.0.1"},
	} {
		wantErr(t, h.Call(r).Err, ipam.ErrBadRequest, "no address")
	}
}

// The IPv6 pool of a network has a longer name than its IPv4 pool. One for which there is no
// room is refused before anything is made for it.
func TestLongPoolNames(t *testing.T) {
	for length, fits := range map[int]bool{60: true, 61: false, 63: false} {
		h := machinetest.NewHost(t, ipam.Config{})
		name := strings.Repeat("a", length)
		if r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.70.0.0/24"), PoolName: name}); r.Err != nil {
			t.Error(r.Err)
		}
		r := h.Call(&ipam.PoolRequest{Space: ipam.Local, V6: true, Pool: prefix("fd00:7::/64"), PoolName: name})
		if fits != (r.Err == nil) || fits != (len(h.Machine().State().Pools) == 2) {
			t.Errorf("%d characters: %v, and there are %d pools", length, r.Err, len(h.Machine().State().Pools))
		}
		if !fits {
			wantErr(t, r.Err, ipam.ErrBadRequest, ".v6", "at most 60")
		}
	}
}

// Networks join the IPv6 pool that an operator made, by its name, and beside that the one
// that they made themselves.
func TestOperatorsPoolOfIPv6(t *testing.T) {
	const own, networks = "fd00:7::/64", "fd00:8::/64"
	h := machinetest.NewHost(t, ipam.Config{})
	joins := func(want string, q ipam.PoolRequest) {
		t.Helper()
		q.Space, q.V6, q.PoolName = ipam.Local, true, "lab"
		if r := h.Call(&q); r.Err != nil || r.Pool.Network.Pool != prefix(want) {
			t.Errorf("%v: joined %v, %v, and not %s", q.Pool, r.Pool.Network.Pool, r.Err, want)
		}
	}
	create := func(cidr, name string) {
		t.Helper()
		if err := h.Call(&ipam.PoolCreation{CIDR: prefix(cidr), Name: name}).Err; err != nil {
			t.Fatal(err)
		}
	}
	create(own, "lab")
	joins(own, ipam.PoolRequest{})
	joins(own, ipam.PoolRequest{Pool: prefix(own)})
	create(networks, "lab.v6")
	joins(networks, ipam.PoolRequest{})
	for _, cidr := range []string{own, networks} { // an engine that starts asks for both again
		joins(cidr, ipam.PoolRequest{Pool: prefix(cidr)})
	}
	h.CheckDisk()
}

func TestOverlap(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/16")
	run(t, h, n, "web")
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.3.0/24")})
	wantErr(t, r.Err, ipam.ErrPoolOverlap, "10.50.3.0/24", "10.50.0.0/16", "1 address in use")
	h.Call(&ipam.PoolRelease{Network: n})
	r = h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.3.0/24")})
	wantErr(t, r.Err, ipam.ErrPoolOverlap)
	release(h, n, address("10.50.0.1"))
	r = h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.3.0/24")})
	if r.Err != nil {
		t.Errorf("a pool that nobody uses makes no room: %v", r.Err)
	}
	h.CheckDisk()
}

// What an operator made, or gave a name, goes only when an operator says so.
func TestPoolsOfOperatorsStay(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.60.0.0/24")}}})
	h.Call(&ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")})
	wantErr(t, h.Call(&ipam.PoolCreation{CIDR: prefix("10.60.0.0/25")}).Err, ipam.ErrPoolOverlap, "ringlet pool rm 10.60.0.0/24")
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/25")}).Err, ipam.ErrPoolOverlap, "ringlet pool rm 10.60.0.0/24")
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local}).Err, ipam.ErrNoSubnet)
	named := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.61.0.0/24"), PoolName: "lab"})
	h.Call(&ipam.PoolRelease{Network: named.Pool.Network})
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.61.0.0/25")}).Err, ipam.ErrPoolOverlap, "lab")
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.62.0.0/24"), PoolName: "lab"}).Err, ipam.ErrBadRequest)
	if s := h.Machine().Status(h.Now); len(s.Pools) != 2 {
		t.Errorf("a refused network left a pool: %+v", s.Pools)
	}
}

func TestSubnetsNobodyCanUse(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	for _, cidr := range []string{"0.0.0.0/0", "0.1.0.0/16", "127.0.0.0/24", "224.0.1.0/24", "fe80::/64", "ff02::/64", "::/64", "255.255.255.254/31", "255.255.255.255/32"} {
		wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr)}).Err, ipam.ErrBadRequest, cidr)
		wantErr(t, h.Call(&ipam.PoolCreation{CIDR: prefix(cidr)}).Err, ipam.ErrBadRequest, cidr)
	}
	wide := network(t, h, "255.255.255.252/30")
	wantErr(t, claim(h, wide, "255.255.255.255", "web"), ipam.ErrAddressReserved, "broadcast address")
}

// A gateway that nobody can have is refused before a pool is made for it, which would keep the
// name and the subnet from the network that is meant.
func TestNoPoolForAGatewayNobodyCanHave(t *testing.T) {
	for subnet, gateway := range map[string]string{"10.50.0.0/24": "10.50.0.255", "10.51.0.0/24": "10.51.0.0", "fd00::/64": "fd00::"} {
		h := machinetest.NewHost(t, ipam.Config{})
		q := ipam.PoolRequest{Space: ipam.Local, Pool: prefix(subnet), Gateway: ipam.GatewayAddr, GatewayAddr: netip.MustParseAddr(gateway), PoolName: "lab"}
		r := h.Call(&q)
		wantErr(t, r.Err, ipam.ErrBadRequest, gateway, "address of subnet "+subnet, "choose another address")
		if s := h.Machine().Status(h.Now); len(s.Pools) > 0 {
			t.Errorf("%s: there is a pool: %+v", subnet, s.Pools)
		}
		q.Pool, q.GatewayAddr, q.Gateway = prefix("10.60.0.0/24"), netip.Addr{}, ipam.GatewayFirst
		if r := h.Call(&q); r.Err != nil {
			t.Errorf("with another subnet and gateway: %v", r.Err)
		}
	}
}

// A host that cannot be reached gets no part of a new pool. While a pool is being made it stays as it was asked for, whoever
// comes or goes meanwhile: there is one command for it.
func TestPoolIsDealtAroundWhoIsAway(t *testing.T) {
	c := newLockstep(t, 5)
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second) // until the level is the present one
	order := c.order()
	owned := func(cidr netip.Prefix) (n []addr.Count) {
		m := c.peers[order[0]].machine
		for _, i := range order {
			var sum addr.Count
			for r := range m.State().PoolOf(cidr).Ring.OwnedBy(c.peers[i].machine.Self()) {
				sum += r.Size()
			}
			n = append(n, sum)
		}
		return n
	}
	c.die(order[4])
	c.mustAsk(order[0], creation(prefix("10.70.0.0/24")))
	if got := owned(prefix("10.70.0.0/24")); !slices.Equal(got, []addr.Count{31, 32, 32, 32, 0}) {
		t.Errorf("the last one is away, and they own %v", got)
	}

	c.lose = undecided
	call := c.call(order[0], creation(prefix("10.71.0.0/24")))
	other := c.peers[order[3]].machine.Self()
	for _, alive := range []bool{false, true, false} {
		c.step(order[0], &ipam.Presence{Peer: other, Alive: alive})
		c.wait(2 * time.Second)
		if n := c.status(order[0]).Pending; n != 1 {
			t.Fatalf("one pool is being made, by %d commands", n)
		}
	}
	c.lose = func(flight) bool { return false }
	c.run(20*time.Second, func() bool { _, ok := c.peers[order[0]].replies[call]; return ok })
	if got := owned(prefix("10.71.0.0/24")); !slices.Equal(got, []addr.Count{31, 32, 32, 32, 0}) {
		t.Errorf("who was reached when it was asked for gets its part: they own %v", got)
	}
}
