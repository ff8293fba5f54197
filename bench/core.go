package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
)

// fill is a pool and how much of it is held: held of its first window addresses, at random.
type fill struct {
	pool         string
	window, held int
	text         string
	builtin      bool // the built-in IPAM can be brought there in bearable time
}

var (
	empty16 = fill{"10.50.0.0/16", 1 << 16, 0, "/16 empty", true}
	fills   = []fill{
		{"10.50.0.0/24", 1 << 8, 1 << 7, "/24 half full", true},
		{"10.50.0.0/24", 1 << 8, 250, "/24 99 % full", true},
		{"10.50.0.0/16", 1 << 16, 1 << 15, "/16 half full", true},
		{"10.50.0.0/16", 1 << 16, 1<<16 - 655, "/16 99 % full", true},
		{"10.48.0.0/12", 1 << 20, 1 << 19, "/12 half full", false},
		{"10.48.0.0/12", 1 << 20, 1<<20 - 10_486, "/12 99 % full", false},
		{"10.0.0.0/8", 1 << 24, 1 << 20, "/8, a million held", false},
		{"fd00:1::/64", 1 << 24, 1 << 20, "/64, a million held", false},
	}
)

// allocator is what a contender of the core can do.
type allocator interface {
	allocate(want netip.Addr) (netip.Addr, error)
	free(a netip.Addr) error
	pairs(n int) error
}

// occupy has held addresses held, at random: it takes all of the window if that is quicker than to claim them one by
// one.
func (f fill) occupy(a allocator) error {
	base := netip.MustParsePrefix(f.pool).Addr()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, o := range rng.Perm(f.window - 2)[:f.held] {
		if _, err := a.allocate(nth(base, o+1)); err != nil {
			return err
		}
	}
	return nil
}

// bare is the bitmap alone.
type bare struct{ bits *bitmap }

func (b bare) pairs(n int) error {
	for range n {
		o, ok := b.bits.take()
		if !ok {
			return errFull
		}
		b.bits.free(o)
	}
	return nil
}

// referencePairs allocates and frees n times.
func (r *reference) pairs(pool string, n int) error {
	for range n {
		a, err := r.allocate(pool)
		if err != nil {
			return err
		}
		if err := r.free(pool, a.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// bitmapOf returns a bitmap that is as full as f says.
func bitmapOf(f fill) *bitmap {
	m := newBitmap(f.window)
	m.claim(0)
	m.claim(f.window - 1)
	for _, o := range rand.New(rand.NewPCG(1, 1)).Perm(f.window - 2)[:f.held] {
		m.claim(o + 1)
	}
	return m
}

// contenders of a fill, with the memory that a machine's first cycles would still have to get.
func (f fill) contenders() ([]contender, *machine, error) {
	m, err := newMachine(f.pool)
	if err != nil {
		return nil, nil, err
	}
	if err := f.occupy(m); err != nil {
		return nil, nil, err
	}
	m.stay()
	if err := m.pairs(70_000); err != nil {
		return nil, nil, err
	}
	ref := &reference{pools: map[string]*referencePool{f.pool: {netip.MustParsePrefix(f.pool), bitmapOf(f)}}}
	list := []contender{
		computing("ringlet", m.pairs),
		computing("bitmap", bare{bitmapOf(f)}.pairs),
		computing("reference", func(n int) error { return ref.pairs(f.pool, n) }),
	}
	if f.builtin {
		b, err := newBuiltin(f.pool)
		if err != nil {
			return nil, nil, err
		}
		if err := f.occupy(b); err != nil {
			return nil, nil, err
		}
		list = append(list, computing("built-in", b.pairs))
	}
	return list, m, nil
}

// measurePair measures an allocation and its release in the core, in memory: P1.
func measurePair(b *bench) error {
	list, m, err := empty16.contenders()
	if err != nil {
		return err
	}
	got, err := interleave(b.rounds, b.slice, list)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P1", what: "allocate and free in the core, /16 empty, against a two-level bitmap with lock, pool by ID and addresses", limit: 3,
		got:  got.times("ringlet", "reference"),
		note: fmt.Sprintf("%s against %s; the bitmap bare takes %s", duration(got.p50("ringlet").median), duration(got.p50("reference").median), duration(got.p50("bitmap").median)),
	})
	b.add(row{
		goal: "P1", what: "the same, against the engine's built-in IPAM", limit: 10, least: true,
		got: got.times("built-in", "ringlet"), note: "it takes " + duration(got.p50("built-in").median),
	})
	allocations := testing.AllocsPerRun(10_000, func() { err = m.pairs(1) })
	b.add(row{goal: "P1", what: "allocations of a pair, counted", limit: 0, unit: " ", got: spread{allocations, allocations, allocations}})
	return err
}

// measureFills measures the same in pools that are large, fragmented or nearly full: P2.
func measureFills(b *bench) error {
	base, err := newMachine(empty16.pool)
	if err != nil {
		return err
	}
	if err := base.pairs(70_000); err != nil {
		return err
	}
	for _, f := range fills {
		if b.short && f.window > 1<<16 {
			continue
		}
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		if err := b.measureFill(f, base); err != nil {
			return fmt.Errorf("%s: %w", f.text, err)
		}
		runtime.GC()
	}
	return nil
}

// measureFill measures one fill against the empty /16 beside it.
func (b *bench) measureFill(f fill, base *machine) error {
	list, _, err := f.contenders()
	if err != nil {
		return err
	}
	list = append(list, computing("empty", base.pairs))
	got, err := interleave(b.rounds, b.slice, list)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P2", what: f.text + ", against ringlet's own empty /16", limit: 1.5,
		got: got.times("ringlet", "empty"), note: duration(got.p50("ringlet").median),
	})
	if f.pool == empty16.pool && f.held == f.window/2 {
		b.add(row{
			goal: "P2", what: f.text + ", against the engine's built-in IPAM", limit: 50, least: true,
			got: got.times("built-in", "ringlet"), note: "it takes " + duration(got.p50("built-in").median),
		})
	}
	return nil
}
