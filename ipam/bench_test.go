package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// stepper returns what has a new machine answer requests, a millisecond apart. None has
// to wait, so that all may have one deadline.
func stepper(tb testing.TB) func(ipam.Request) *ipam.Reply {
	tb.Helper()
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		tb.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	call := &ipam.Call{Deadline: now.Add(24 * time.Hour)}
	return func(r ipam.Request) *ipam.Reply {
		now, call.Request = now.Add(time.Millisecond), r
		if inv, ok := r.(*ipam.Inventory); ok {
			inv.After = m.Mark(now)
		}
		fx := m.Step(now, call)
		if len(fx.Reply) != 1 || fx.Reply[0].Err != nil {
			tb.Fatalf("%+v", fx.Reply)
		}
		return &fx.Reply[0]
	}
}

// emptyNetworks is the list of an engine that has networks without containers, as each sends
// soon after a start.
func emptyNetworks(cidrs ...netip.Prefix) *ipam.Inventory {
	inv := &ipam.Inventory{}
	for _, cidr := range cidrs {
		inv.Networks = append(inv.Networks, ipam.InventoryNetwork{Subnets: []netip.Prefix{cidr}})
	}
	return inv
}

// pairs returns what allocates and frees an address for a container of another
// name each time, in a pool that is full of what was freed before: what a host
// does all its life. So many addresses more are held.
func pairs(tb testing.TB, pool string, held int) func() {
	tb.Helper()
	names := make([]string, 150_000) // more than a pool remembers
	for i := range names {
		names[i] = "container-" + strconv.Itoa(i)
	}
	cidr := netip.MustParsePrefix(pool)
	net := ipam.Network{Space: ipam.Local, Pool: cidr, Range: cidr}
	request := &ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0x42, 10, 1, 2, 3}}
	release := &ipam.AddressRelease{Network: net}
	step, next := stepper(tb), 0
	step(&ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
	step(emptyNetworks(cidr))
	for i := range held {
		request.Name = "holder-" + strconv.Itoa(i)
		step(request)
	}
	pair := func() {
		next = (next + 1) % len(names)
		request.Name = names[next]
		release.Address = step(request).Address.Address.Addr()
		step(release)
	}
	for range 70_000 { // until all that is remembered has been used
		pair()
	}
	return pair
}

// TestNoAllocations holds the hot path to no allocation: an allocation and its
// release by the core, once its memory is as large as the pool needs.
func TestNoAllocations(t *testing.T) {
	for _, pool := range []string{"10.50.0.0/24", "10.50.0.0/16", "fd00:1::/64"} {
		if got := testing.AllocsPerRun(2_000, pairs(t, pool, 0)); got != 0 {
			t.Errorf("%s: an allocation and its release allocate %v times, want 0", pool, got)
		}
	}
}

// TestManyPools holds a host with many networks to what one with few pays: what
// follows from a network is not worked out in each call. Some share a place.
func TestManyPools(t *testing.T) {
	step := stepper(t)
	nets := make([]ipam.Network, 1000)
	for i := range nets {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		nets[i] = step(&ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Pool.Network
	}
	request := &ipam.AddressRequest{Purpose: ipam.ForContainer, Name: "web"}
	release := &ipam.AddressRelease{}
	round := func() {
		for i := range nets {
			request.Network, release.Network = nets[i], nets[i]
			a := step(request).Address.Address.Addr()
			if !nets[i].Pool.Contains(a) {
				t.Fatalf("%v has %v", nets[i].Pool, a)
			}
			release.Address = a
			step(release)
		}
	}
	round()
	if got := testing.AllocsPerRun(3, round) / float64(len(nets)); got > 0.1 {
		t.Errorf("an allocation and its release allocate %v times in the mean", got)
	}
}

// manyPools returns a machine with so many networks, each on a pool of its own, and what
// lets a second pass in which nothing happens.
func manyPools(tb testing.TB, n int) (second func()) {
	tb.Helper()
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		tb.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	cidrs := make([]netip.Prefix, n)
	for i := range cidrs {
		cidrs[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		m.Step(now, &ipam.Call{Deadline: now.Add(time.Second), Request: &ipam.PoolRequest{Space: ipam.Local, Pool: cidrs[i]}})
	}
	list := emptyNetworks(cidrs...)
	list.After = m.Mark(now)
	m.Step(now, &ipam.Call{Deadline: now.Add(time.Second), Request: list})
	return func() {
		now = now.Add(time.Second)
		if fx := m.Step(now, ipam.Tick{}); len(fx.Save)+len(fx.Send) > 0 {
			tb.Fatalf("%d records and %d frames although nothing happens", len(fx.Save), len(fx.Send))
		}
	}
}

// TestIdlePools holds a host with a thousand networks to no allocation for looking after
// them each second.
func TestIdlePools(t *testing.T) {
	second := manyPools(t, 1000)
	second()
	if got := testing.AllocsPerRun(10, second); got > 0 {
		t.Errorf("a second in which nothing happens allocates %v times", got)
	}
}

// BenchmarkIdlePools asks what a second costs in which nothing happens, by the networks
// that a host has. Accepted: some ten nanoseconds for each.
func BenchmarkIdlePools(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint("pools=", n), func(b *testing.B) {
			second := manyPools(b, n)
			b.ReportAllocs()
			for b.Loop() {
				second()
			}
		})
	}
}

// BenchmarkPair asks what an allocation and its release cost in the core,
// records to be written included. Accepted (P1): 3 times a two-level bitmap
// with a lock and a pool by ID, which bench compares it with.
func BenchmarkPair(b *testing.B) {
	for _, c := range []struct {
		pool string
		held int
	}{
		{"10.50.0.0/24", 0}, {"10.50.0.0/16", 0}, {"fd00:1::/64", 0}, {"10.0.0.0/8", 1_000_000},
	} {
		b.Run(fmt.Sprintf("pool=%s/held=%d", c.pool, c.held), func(b *testing.B) {
			pair := pairs(b, c.pool, c.held)
			b.ReportAllocs()
			for b.Loop() {
				pair()
			}
		})
	}
}

// crowded returns what has a machine answer requests that holds 100,000
// addresses of a pool, and the endpoints that have them.
func crowded(b *testing.B, cidr netip.Prefix) (step func(ipam.Request), held []ipam.InventoryEndpoint) {
	b.Helper()
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), Deal: chronicle.DealAll})
	if err != nil {
		b.Fatal(err)
	}
	net := ipam.Network{Space: ipam.Local, Pool: cidr, Range: cidr}
	now := time.Unix(1_700_000_000, 0)
	answer := func(r ipam.Request) ipam.Reply {
		if inv, ok := r.(*ipam.Inventory); ok {
			inv.After = m.Mark(now)
		}
		fx := m.Step(now, &ipam.Call{Deadline: now.Add(time.Second), Request: r})
		if len(fx.Reply) != 1 || fx.Reply[0].Err != nil {
			b.Fatalf("%+v", fx.Reply)
		}
		return fx.Reply[0]
	}
	for i := range 100_000 {
		e := ipam.InventoryEndpoint{Name: "container-" + strconv.Itoa(i), Container: fmt.Sprintf("%064x", i)}
		r := answer(&ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, Name: e.Name, ID: e.Container})
		e.Address = r.Address.Address.Addr()
		held = append(held, e)
	}
	return func(r ipam.Request) { answer(r) }, held
}

// BenchmarkHostAddresses asks what it costs to tell a peer with 100,000 held
// which addresses its host has, as it is told at a start and every 20 seconds.
func BenchmarkHostAddresses(b *testing.B) {
	step, _ := crowded(b, netip.MustParsePrefix("10.0.0.0/8"))
	b.ReportAllocs()
	for b.Loop() {
		step(&ipam.HostAddresses{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.200/8")}})
	}
}

// BenchmarkInventory asks what it costs a peer with 100,000 held to take in an
// engine's list that has them all. Nobody else is answered meanwhile.
func BenchmarkInventory(b *testing.B) {
	cidr := netip.MustParsePrefix("10.0.0.0/8")
	step, held := crowded(b, cidr)
	list := &ipam.Inventory{Networks: []ipam.InventoryNetwork{{ID: "n1", Name: "net", Subnets: []netip.Prefix{cidr}, Endpoints: held}}}
	b.ReportAllocs()
	for b.Loop() {
		step(list)
	}
}
