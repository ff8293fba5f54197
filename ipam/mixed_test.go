package ipam_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// pages are the disks of one peer at several times, and of another one.
func pages(tb testing.TB) (out []machinetest.Disk) {
	tb.Helper()
	c := newLockstepWith(tb, 3, func(*lockstep) {})
	c.run(time.Minute, c.agreed)
	keep := func() {
		for _, p := range c.peers {
			out = append(out, maps.Clone(p.disk))
		}
	}
	keep()
	for n, cidr := range []string{"10.50.0.0/24", "10.51.0.0/26", "fd00:5::/64", "10.53.0.0/30"} {
		for i := range c.peers {
			c.ask(i, creation(prefix(cidr)))
			for range 4 {
				c.ask(i, docker(prefix(cidr)))
			}
		}
		keep()
		c.stop(n%3, prefix(cidr))
		if n == 1 {
			for i := range c.peers {
				c.vacate(i, prefix(cidr))
			}
			c.wait(5 * time.Second)
		}
		keep()
	}
	return out
}

// FuzzRestoreOfManyTimes gives a restoration records that are each sound, and not of one time, as a file has them in
// which a disk has lost, or misplaced, some pages: persist shows them before it has found that out. It must not die
// of it, or the file would never be set aside.
func FuzzRestoreOfManyTimes(f *testing.F) {
	disks := pages(f)
	keys := map[string]bool{}
	for _, d := range disks {
		for k := range d {
			keys[k] = true
		}
	}
	all := slices.Sorted(maps.Keys(keys))
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed), uint8(3*seed), uint8(60))
	}
	f.Fuzz(func(t *testing.T, seed uint64, a, b, often uint8) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		from := []machinetest.Disk{disks[int(a)%len(disks)], disks[int(b)%len(disks)], {}}
		l, err := ipam.NewRestoration(ipam.Config{Name: "host-0", Join: true, Rand: rnd, Formation: ipam.Formation{Size: 3, List: 1, Seat: 1}})
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, k := range all {
			if rnd.IntN(256) < int(often) { // pages have many records each
				at = rnd.IntN(len(from))
			}
			v, ok := from[at][k]
			if !ok {
				continue
			}
			bucket, key, _ := strings.Cut(k, "\x00\x00")
			if l.Visit(bucket, []byte(key), v) != nil {
				return
			}
		}
	})
}
