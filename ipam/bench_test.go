package ipam_test

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// pairs returns what allocates and frees an address for a container of another
// name each time, in a pool that is full of what was freed before: what a host
// does all its life.
func pairs(tb testing.TB, pool string) func() {
	tb.Helper()
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		tb.Fatal(err)
	}
	names := make([]string, 150_000) // more than a pool remembers
	for i := range names {
		names[i] = "container-" + strconv.Itoa(i)
	}
	cidr := netip.MustParsePrefix(pool)
	net := ipam.Network{Space: ipam.Local, Pool: cidr, Range: cidr}
	request := &ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0x42, 10, 1, 2, 3}}
	release := &ipam.AddressRelease{Network: net}
	call := &ipam.Call{}
	now, next := time.Unix(1_700_000_000, 0), 0
	step := func(r ipam.Request) *ipam.Reply {
		now = now.Add(time.Millisecond)
		call.Deadline, call.Request = now.Add(time.Second), r
		fx := m.Step(now, call)
		if len(fx.Reply) != 1 || fx.Reply[0].Err != nil {
			tb.Fatalf("%+v", fx.Reply)
		}
		return &fx.Reply[0]
	}
	step(&ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
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
		if got := testing.AllocsPerRun(2_000, pairs(t, pool)); got != 0 {
			t.Errorf("%s: an allocation and its release allocate %v times, want 0", pool, got)
		}
	}
}

// BenchmarkPair asks what an allocation and its release cost in the core,
// records to be written included. Accepted (P1): 3 times a two-level bitmap
// with a lock and a pool by ID, which bench compares it with.
func BenchmarkPair(b *testing.B) {
	for _, pool := range []string{"10.50.0.0/24", "10.50.0.0/16", "fd00:1::/64"} {
		b.Run("pool="+pool, func(b *testing.B) {
			pair := pairs(b, pool)
			b.ReportAllocs()
			for b.Loop() {
				pair()
			}
		})
	}
}
