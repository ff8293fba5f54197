package gossip

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/guard"
	"github.com/ringlet/ringlet/ipam/peer"
)

// guests are streams at an intake.
type guests struct {
	intake
	ended map[*place]bool
}

// come has a stream come of an address, and returns it, or nil if it was not admitted.
func (g *guests) come(from string, known bool) *place {
	var p *place
	p, ok := g.admit(netip.MustParseAddr(from), known, func() { g.ended[p] = true })
	if !ok {
		return nil
	}
	return p
}

func newGuests() *guests { return &guests{ended: make(map[*place]bool)} }

// leave demands that nothing is counted any more once all have gone.
func (g *guests) leave(t *testing.T, all []*place) {
	t.Helper()
	for _, p := range all {
		if p != nil {
			g.release(p)
			g.release(p) // counts once
		}
	}
	if g.all != (reading{}) || g.strangers != (reading{}) || len(g.each) > 0 {
		t.Errorf("without streams %+v and %+v are counted, of %d sources", g.all, g.strangers, len(g.each))
	}
}

// TestNewcomersByNumber fills what there is of streams, and has one more come.
func TestNewcomersByNumber(t *testing.T) {
	many := func(g *guests, n int, from string, known bool) (all []*place) {
		for range n {
			all = append(all, g.come(from, known))
		}
		return all
	}
	for name, tt := range map[string]struct {
		fill func(g *guests) []*place
		from string
		know bool
		ends int // which of those that were there goes; -1: none, -2: the newcomer
	}{
		"there is room": {func(g *guests) []*place { return many(g, 3, "10.0.0.1", false) }, "10.0.0.9", false, -1},
		"one source has all that one may": {
			func(g *guests) []*place { return many(g, maxInboundEach, "10.0.0.1", true) }, "10.0.0.1", true, 0,
		},
		"a small source among strangers that have all": {func(g *guests) []*place {
			all := many(g, 50, "10.0.0.1", false)
			all = append(all, many(g, 120, "10.0.0.2", false)...)
			return append(all, many(g, strangersInbound-170, "10.0.0.3", false)...)
		}, "10.0.0.9", false, 50},
		"the largest source itself": {func(g *guests) []*place {
			all := many(g, 100, "10.0.0.1", false)
			all = append(all, many(g, 100, "10.0.0.2", false)...)
			return append(all, many(g, strangersInbound-200, "10.0.0.3", false)...)
		}, "10.0.0.2", false, 100},
		"a known one beside strangers that have all": {func(g *guests) []*place {
			return append(many(g, 128, "10.0.0.1", false), many(g, 128, "10.0.0.2", false)...)
		}, "10.0.0.9", true, -1},
		"a known one among all": {func(g *guests) (all []*place) {
			for i := range 4 {
				all = append(all, many(g, 100, fmt.Sprint("10.0.0.", i+1), true)...)
			}
			return append(all, many(g, maxInbound-400, "10.0.1.1", false)...)
		}, "10.0.0.9", true, 400},
		"a /64 of addresses": {func(g *guests) (all []*place) {
			for i := range maxInboundEach {
				all = append(all, g.come(fmt.Sprintf("2001:db8::%x", i+1), false))
			}
			return all
		}, "2001:db8::ffff", false, 0},
		"addresses without number": {func(g *guests) (all []*place) {
			for i := range strangersInbound {
				all = append(all, g.come(fmt.Sprint("10.1.0.", i), false))
			}
			return all
		}, "10.0.0.9", false, 0},
		"peers have all": {func(g *guests) []*place {
			all := many(g, maxInboundEach, "10.0.0.1", true)
			for _, p := range all {
				g.settle(p)
			}
			return all
		}, "10.0.0.1", true, -2},
	} {
		g := newGuests()
		all := tt.fill(g)
		if len(g.ended) > 0 || slices.Contains(all, nil) {
			t.Fatalf("%s: %d streams have ended before", name, len(g.ended))
		}
		last := g.come(tt.from, tt.know)
		switch {
		case (last == nil) != (tt.ends == -2):
			t.Errorf("%s: the newcomer has come: %v", name, last != nil)
		case tt.ends < 0 && len(g.ended) > 0, tt.ends >= 0 && (len(g.ended) != 1 || !g.ended[all[tt.ends]]):
			at := slices.IndexFunc(all, func(p *place) bool { return g.ended[p] })
			t.Errorf("%s: %d have ended, the first is number %d, want %d", name, len(g.ended), at, tt.ends)
		}
		g.leave(t, append(all, last))
	}
}

// TestNewcomersByBytes fills what there is of bytes, and has more come.
func TestNewcomersByBytes(t *testing.T) {
	type load struct {
		from  string
		known bool
		bytes int
	}
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		there []load
		then  load
		ends  int
	}{
		"there is room":      {[]load{{"10.0.0.1", false, 20 * mib}}, load{"10.0.0.2", false, 12 * mib}, -1},
		"one has all":        {[]load{{"10.0.0.1", true, 12 * mib}, {"10.0.0.1", true, 12 * mib}}, load{"10.0.0.1", true, 1}, 0},
		"strangers have all": {[]load{{"10.0.0.1", false, 10 * mib}, {"10.0.0.2", false, 14 * mib}, {"10.0.0.3", false, 8 * mib}}, load{"10.0.0.4", false, mib}, 1},
		"a known one beside strangers that have all": {
			[]load{{"10.0.0.1", false, 16 * mib}, {"10.0.0.2", false, 16 * mib}}, load{"10.0.0.3", true, 20 * mib}, -1,
		},
		"known ones, and strangers": {
			[]load{{"10.0.0.1", true, 20 * mib}, {"10.0.0.2", true, 20 * mib}, {"10.0.1.1", false, 8 * mib}, {"10.0.1.2", false, 9 * mib}},
			load{"10.0.0.3", true, 8 * mib},
			3,
		},
		"known ones have all": {
			[]load{{"10.0.0.1", true, 20 * mib}, {"10.0.0.2", true, 22 * mib}, {"10.0.0.3", true, 21 * mib}}, load{"10.0.0.4", true, 2 * mib}, 1,
		},
		"the one that brings too much itself": {
			[]load{{"10.0.0.1", false, 10 * mib}, {"10.0.0.2", false, 10 * mib}}, load{"10.0.0.3", false, 20 * mib}, -2,
		},
	} {
		g := newGuests()
		var all []*place
		for _, l := range tt.there {
			p := g.come(l.from, l.known)
			if !g.take(p, l.bytes) {
				t.Fatalf("%s: there is no room before", name)
			}
			all = append(all, p)
		}
		last := g.come(tt.then.from, tt.then.known)
		fits := g.take(last, tt.then.bytes)
		if fits == (tt.ends == -2) || g.lost(last) == fits {
			t.Errorf("%s: there is room: %v", name, fits)
		}
		for i, p := range all {
			if g.ended[p] != (i == tt.ends) {
				t.Errorf("%s: stream %d has ended: %v, want number %d to", name, i, g.ended[p], tt.ends)
			}
		}
		if g.all.bytes > maxReading || g.strangers.bytes > strangersReading {
			t.Errorf("%s: %d bytes are read, %d of strangers", name, g.all.bytes, g.strangers.bytes)
		}
		g.leave(t, append(all, last))
	}
}

// TestAnswersCountTheirBytes has a host answer that this peer has asked: what it brings counts, and its number does not.
func TestAnswersCountTheirBytes(t *testing.T) {
	g := newGuests()
	asked := g.dialed(netip.MustParseAddr("10.0.0.1"), func() {})
	if !g.take(asked, maxReadingEach) || g.take(asked, 1) {
		t.Error("an answer may take what it likes")
	}
	var all []*place
	asked = g.dialed(netip.MustParseAddr("10.0.0.1"), func() { t.Error("an answer goes for a stream of another one") })
	for range maxInboundEach + 1 {
		all = append(all, g.come("10.0.0.1", true))
	}
	g.leave(t, append(all, asked))
	g.close()
	if g.come("10.0.0.1", true) != nil {
		t.Error("a stream comes after the end")
	}
}

// logging returns a gossip that is not running, and what it logs.
func logging(t *testing.T) (*Gossip, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	cfg := goodConfig()
	cfg.Logger = slog.New(slog.NewTextHandler(out, nil))
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g, out
}

// TestForeignPeersDoNotFillTheLog hears again and again of more hosts than are remembered.
func TestForeignPeersDoNotFillTheLog(t *testing.T) {
	g, out := logging(t)
	now := time.Now()
	for round := range 100 {
		for host := range 100 {
			g.screen.refuse(guard.Key, netip.AddrFrom4([4]byte{10, 0, 1, byte(host)}), true, now.Add(time.Duration(round)*time.Second/2))
		}
	}
	for what, want := range map[string]int{"stranger refused": maxLogged, "foreign peer refused": maxSightings} {
		if n := strings.Count(out.String(), what); n != want {
			t.Errorf("%d lines with %q, of 100 hosts within a minute, want %d", n, what, want)
		}
	}
}

// TestThreeCopiesDoNotFillTheLog has three hosts with one database.
func TestThreeCopiesDoNotFillTheLog(t *testing.T) {
	g, out := logging(t)
	for range 100 {
		for _, there := range []string{"10.0.0.2:7950", "10.0.0.3:7950"} {
			g.diagnostics.conflict(peer.ID{1}, netip.MustParseAddrPort("10.0.0.1:7950"), netip.MustParseAddrPort(there), time.Now())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines at once, of one peer at three addresses", n)
	}
}
