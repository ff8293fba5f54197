package cli

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
)

func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []part
		some := 0
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(1, 300), rapid.Uint64()), 1, 6).Draw(t, "parts") {
			parts = append(parts, part{n: n})
			if n > 0 {
				some++
			}
		}
		cells := rapid.IntRange(1, maxBar).Draw(t, "cells")
		got := share(parts, cells)
		sum := 0
		for i, n := range got {
			sum += n
			if n < 0 || parts[i].n == 0 && n > 0 || parts[i].n > 0 && n == 0 && cells >= some {
				t.Errorf("part %d of %v got %v", i, parts, got)
			}
			for j := range got { // more addresses never get fewer cells
				if parts[i].n > parts[j].n && n < got[j] && cells >= some {
					t.Errorf("part %d of %v got less than part %d: %v", i, parts, j, got)
				}
			}
		}
		if want := cells; some > 0 && sum != want || some == 0 && sum != 0 {
			t.Errorf("%v got %v, which is %d cells of %d", parts, got, sum, want)
		}
	})
}

// The bar of a pool shows each address's owner, for pools small enough to have
// a cell per address; and never fewer or more cells than it should.
func TestRingBar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), rapid.IntRange(8, 30).Draw(t, "bits"))
		if rapid.Bool().Draw(t, "v6") {
			pool = netip.PrefixFrom(netip.MustParseAddr("fd00::"), rapid.IntRange(64, 126).Draw(t, "bits6"))
		}
		size := uint64(addr.Size(pool))
		p := ipam.PoolStatus{Pool: pool, Size: size}
		var want strings.Builder
		for at := uint64(0); at < size; {
			n := min(rapid.Uint64Range(1, size).Draw(t, "range"), size-at)
			if len(p.Holders) > 6 {
				n = size - at
			}
			owner := rapid.SampledFrom([]string{"free", "reserved", "me", "gone"}).Draw(t, "owner")
			p.Holders = append(p.Holders, ipam.RangeStatus{Start: addr.Nth(pool, addr.Offset(at)), End: addr.Nth(pool, addr.Offset(at+n-1)), Owner: owner})
			if size <= 64 {
				want.WriteString(strings.Repeat(string(map[string]rune{"free": '.', "reserved": 'r', "me": 'A', "gone": 'q'}[owner]), int(n)))
			}
			at += n
		}
		var out bytes.Buffer
		o := ownersOf(ipam.Status{Peers: []ipam.PeerStatus{{ID: "me", Name: "me"}}})
		view{out: &out, columns: 80}.ringBar(p, o.part)
		got := strings.Trim(out.String(), "[]\n")
		if size <= 64 && got != want.String() {
			t.Errorf("got %s, want %s", got, &want)
		}
		if len(got) != int(min(size, 78)) || strings.Contains(got, "?") {
			t.Errorf("a pool of %d addresses was drawn as %s", size, got)
		}
	})
}

// A status that contradicts itself is drawn all the same.
func TestDrawingNonsense(t *testing.T) {
	a := netip.MustParseAddr
	for _, p := range []ipam.PoolStatus{
		{},
		{Pool: netip.MustParsePrefix("10.0.0.0/24")},
		{Pool: netip.MustParsePrefix("10.0.0.0/24"), Size: math.MaxUint64, Held: math.MaxUint64, HeldHere: math.MaxUint64, Mine: 3, Resting: 9, RestingHere: 3},
		{Pool: netip.MustParsePrefix("10.0.0.0/30"), Size: 4, Holders: []ipam.RangeStatus{{}, {Start: a("10.0.0.3"), End: a("10.0.0.0")}, {Start: a("fd00::"), End: a("10.9.0.0"), Owner: "x"}}},
	} {
		f := alone()
		f.st.Pools = []ipam.PoolStatus{p}
		f.st.Peers = nil
		var out bytes.Buffer
		v := view{out: &out, columns: 40}
		v.status(f.st, true)
		v.ring(p, ownersOf(f.st))
		if out.Len() == 0 {
			t.Errorf("nothing was printed for %+v", p)
		}
	}
}

func TestAgo(t *testing.T) {
	v := view{now: now}
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", time.Second: "1s ago", 59 * time.Second: "59s ago", time.Minute: "1m ago",
		59*time.Minute + 59*time.Second: "59m ago", time.Hour: "1h ago", 47 * time.Hour: "47h ago", 48 * time.Hour: "2d ago", 1000 * 24 * time.Hour: "1000d ago",
	} {
		if got := v.ago(now.Add(-d)); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	if got := v.ago(time.Time{}); got != "" {
		t.Errorf("no time: got %q", got)
	}
}

func TestAmount(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1: "1", 16_777_216: "16777216", 999_999_999: "999999999", 1 << 32: "2^32", math.MaxUint64: "2^64"} {
		if got := amount(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	for _, seed := range []string{"web", "a\x1b[2Jb", "a\nb", "é", "\xff", "\u202e", "\"quoted\"", "\ufffd", "\"\ufffd", "\"\xff", "\u00a0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := safe(s)
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q became %q", s, got)
			}
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q became %q, which is no UTF-8", s, got)
		}
		if safe(got) != got {
			t.Errorf("%q became %q, which is not safe", s, got)
		}
	})
}

// Columns stand under one another whatever letters names are made of.
func TestTableOfWideLetters(t *testing.T) {
	var out bytes.Buffer
	view{out: &out, columns: 16}.table([]column{{title: "HOLDER", cut: true}, {title: "STATE"}},
		[][]string{{"web", "held"}, {"日本", "held"}, {"e\u0301te", "held"}, {"日本語日本語", "held"}})
	want := "HOLDER     STATE\nweb        held\n日本       held\ne\u0301te        held\n日本語日…  held\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Lines fit the terminal while there is anything to drop or to cut.
func TestTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := []column{{title: "A"}, {title: "B", cut: true}, {title: "C", drop: 1}, {title: "D", drop: 2, right: true}}
		text := rapid.StringMatching(`[a-zé日本]{0,30}`)
		var rows [][]string
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			rows = append(rows, []string{"0123456789", text.Draw(t, "b"), text.Draw(t, "c"), text.Draw(t, "d")})
		}
		width := rapid.IntRange(10+tableGap+minCut, 120).Draw(t, "width")
		var out bytes.Buffer
		view{out: &out, columns: width}.table(columns, rows)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d rows became %d lines", len(rows), len(lines))
		}
		for _, l := range lines {
			if n := displayWidth(l); n > width {
				t.Errorf("a line has %d columns of %d: %s", n, width, l)
			}
		}
	})
}

// Hosts that have one name, as one that was rebuilt and its former self, are told apart by the digits that commands take.
func TestOwnersOfOneName(t *testing.T) {
	o := ownersOf(ipam.Status{Self: ipam.PeerStatus{ID: "77aa00bb11cc"}, Peers: []ipam.PeerStatus{
		{ID: "77aa00bb11cc", Name: "host-a"}, {ID: "88dd00ee11ff", Name: "host-a", State: stateEvicted}, {ID: "99ff00ee11ff", Name: "host-b"},
	}})
	for id, want := range map[string]string{
		"77aa00bb11cc": "host-a 77aa00bb (this peer)", "88dd00ee11ff": "host-a 88dd00ee (evicted)", "99ff00ee11ff": "host-b",
	} {
		if got := o.part(ipam.RangeStatus{Owner: id}).text; got != want {
			t.Errorf("%s is called %q, want %q", id, got, want)
		}
	}
}
