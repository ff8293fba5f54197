package addr_test

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam/addr"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestSize(t *testing.T) {
	for p, want := range map[string]addr.Count{
		"10.0.0.0/32": 1, "10.0.0.0/24": 256, "0.0.0.0/0": 1 << 32, "fd00::/128": 1, "fd00::/65": 1 << 63, "fd00::/64": math.MaxUint64,
	} {
		if got := addr.Size(prefix(p)); got != want {
			t.Errorf("%s: %d, want %d", p, got, want)
		}
	}
}

func TestPlus(t *testing.T) {
	const most = addr.Count(math.MaxUint64)
	for _, c := range [][3]addr.Count{{1, 2, 3}, {0, most, most}, {most - 2, 2, most}, {most - 2, 3, most}, {1 << 63, 1 << 63, most}, {most, most, most}} {
		if got := c[0].Plus(c[1]); got != c[2] {
			t.Errorf("%d and %d are %d, not %d", c[0], c[1], c[2], got)
		}
	}
}

func TestChecked(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.7/24": "10.0.0.0/24", "::ffff:10.0.0.7/120": "10.0.0.0/24", "fd00::7/64": "fd00::/64", "0.0.0.0/0": "0.0.0.0/0",
		"fd00::/63": "", "::/0": "", "::ffff:0.0.0.0/95": "",
	} {
		got, err := addr.Checked(prefix(in))
		if want == "" != (err != nil) || err == nil && got != prefix(want) {
			t.Errorf("%s: %v, %v, want %s", in, got, err, want)
		}
	}
	if _, err := addr.Checked(netip.Prefix{}); err == nil {
		t.Error("an invalid prefix is accepted")
	}
}

func TestOffsets(t *testing.T) {
	for _, c := range []struct {
		pool, at string
		o        addr.Offset
		ok       bool
	}{
		{"10.0.0.0/8", "10.255.255.255", 1<<24 - 1, true},
		{"10.0.0.0/8", "11.0.0.0", 0, false},
		{"10.0.0.0/8", "9.255.255.255", 0, false},
		{"10.0.0.0/8", "0.0.0.0", 0, false},
		{"255.255.255.0/24", "255.255.255.255", 255, true},
		{"255.255.255.0/24", "255.255.254.255", 0, false},
		{"10.0.0.0/8", "::ffff:10.0.0.3", 3, true},
		{"10.0.0.0/8", "fd00::1", 0, false},
		{"fd00::/64", "fd00::ffff:ffff:ffff:fffe", math.MaxUint64 - 1, true},
		{"fd00::/64", "fd00::ffff:ffff:ffff:ffff", 0, false}, // reserved anycast, no part of the pool
		{"0.0.0.0/0", "255.255.255.255", 1<<32 - 1, true},
	} {
		o, ok := addr.OffsetOf(prefix(c.pool), netip.MustParseAddr(c.at))
		if ok != c.ok || ok && o != c.o {
			t.Errorf("%s in %s: %d, %v", c.at, c.pool, o, ok)
		}
		if back := addr.Nth(prefix(c.pool), c.o); c.ok && back != netip.MustParseAddr(c.at).Unmap() {
			t.Errorf("%d of %s is %v, want %s", c.o, c.pool, back, c.at)
		}
	}
}

func TestRangeOf(t *testing.T) {
	for _, c := range []struct {
		pool, sub string
		want      addr.Range
	}{
		{"10.0.0.0/16", "10.0.1.0/24", addr.Range{Start: 256, End: 512}},
		{"10.0.0.0/16", "10.0.0.0/8", addr.Range{End: 65536}},
		{"10.0.0.0/16", "11.0.0.0/24", addr.Range{}},
		{"10.0.0.0/16", "fd00::/64", addr.Range{}},
		{"fd00::/64", "fd00::8000:0:0:0/65", addr.Range{Start: 1 << 63, End: math.MaxUint64}},
		{"fd00::/64", "fd00::ffff:ffff:ffff:ffff/128", addr.Range{}},
	} {
		if got := addr.RangeOf(prefix(c.pool), prefix(c.sub)); got != c.want {
			t.Errorf("%s in %s: %v, want %v", c.sub, c.pool, got, c.want)
		}
	}
}

func TestLargestBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint64Range(0, 70).Draw(t, "start")
		end := rapid.Uint64Range(0, 70).Draw(t, "end")
		limit := rapid.Uint64Range(1, 80).Draw(t, "limit")
		r := addr.Range{Start: addr.Offset(start), End: addr.Offset(end)}
		var want addr.Range
		for size := uint64(1); size <= min(limit, 64); size *= 2 {
			for at := uint64(0); at+size <= end; at += size {
				if b := (addr.Range{Start: addr.Offset(at), End: addr.Offset(at + size)}); r.Covers(b) && b.Size() > want.Size() {
					want = b
				}
			}
		}
		if got := r.LargestBlock(addr.Count(limit)); got != want {
			t.Fatalf("largest block of %v up to %d: %v, want %v", r, limit, got, want)
		}
	})
	whole := addr.Whole(prefix("fd00::/64"))
	if got := whole.LargestBlock(math.MaxUint64); got != (addr.Range{End: 1 << 63}) {
		t.Errorf("largest block of a /64: %v", got)
	}
	end := addr.Range{Start: math.MaxUint64 - 1, End: math.MaxUint64}
	if got := end.LargestBlock(8); got != end {
		t.Errorf("largest block at the end: %v", got)
	}
}

func ExampleRange_LargestBlock() {
	pool := netip.MustParsePrefix("10.50.0.0/24")
	r := addr.Range{Start: 3, End: 40}
	fmt.Println(r.Text(pool), "holds the block", r.LargestBlock(64).Text(pool))
	// Output: 10.50.0.3-10.50.0.39 holds the block 10.50.0.16-10.50.0.31
}
