package ipam_test

import (
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

func TestChosenSubnets(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{Universe: []netip.Prefix{prefix("10.60.0.0/23")}, Avoid: []netip.Prefix{prefix("192.168.0.0/16")}})
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
	wantErr(t, err, ipam.ErrNoSubnet, "/24", "10.60.0.0/23", "--subnet")
	h.Call(&ipam.PoolRelease{Network: one})
	three, err := choose()
	if err != nil || three.Pool != one.Pool {
		t.Errorf("after a release: %v, %v, want %v", three.Pool, err, one.Pool)
	}
	h.CheckDisk()
}

func TestChosenSubnetAvoids(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{
		Universe: []netip.Prefix{prefix("10.32.0.0/12")}, ChooseULA: true,
		Avoid: []netip.Prefix{prefix("10.32.0.0/13"), prefix("10.40.0.128/25")},
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

// The engine asks again and again while an answer overlaps a route of its
// host. A pool by name is always the same, so it must end in an error.
func TestNamedPoolDoesNotSpinTheEngine(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{})
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
	h := ipamtest.NewHost(t, ipam.Config{})
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

func TestOverlap(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{})
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
	h := ipamtest.NewHost(t, ipam.Config{Universe: []netip.Prefix{prefix("10.60.0.0/24")}})
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
	h := ipamtest.NewHost(t, ipam.Config{})
	for _, cidr := range []string{"0.0.0.0/0", "0.1.0.0/16", "127.0.0.0/24", "224.0.1.0/24", "fe80::/64", "ff02::/64", "::/64"} {
		wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr)}).Err, ipam.ErrBadRequest, cidr)
		wantErr(t, h.Call(&ipam.PoolCreation{CIDR: prefix(cidr)}).Err, ipam.ErrBadRequest, cidr)
	}
}
