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
	growth       float64 // how many times as long as in the same pool, empty, a pair may take; 0: no row says so
	over         []aim   // how many times as long the engine's built-in IPAM is to take at least
}

// aim is a goal, and the limit that it sets.
type aim struct {
	goal  string
	limit float64
}

var (
	empty16 = fill{pool: "10.50.0.0/16", window: 1 << 16, text: "/16 empty", over: []aim{{"P1 G1", 10}}}
	empty24 = fill{pool: "10.50.0.0/24", window: 1 << 8, text: "/24 empty", over: []aim{{"G1", 10}}}
	empty12 = fill{pool: "10.48.0.0/12", window: 1 << 20, text: "/12 empty", over: []aim{{"G1", 10}}}

	half12 = fill{pool: empty12.pool, window: 1 << 20, held: 1 << 19, text: "/12 half full", growth: 4}

	fills = []fill{
		{pool: empty24.pool, window: 1 << 8, held: 1 << 7, text: "/24 half full", growth: 2},
		{pool: empty24.pool, window: 1 << 8, held: 250, text: "/24 99 % full", growth: 2},
		{pool: empty16.pool, window: 1 << 16, held: 1 << 15, text: "/16 half full", over: []aim{{"P2", 50}, {"G2", 100}}},
		{pool: empty16.pool, window: 1 << 16, held: 1<<16 - 655, text: "/16 99 % full"},
		half12,
		{pool: empty12.pool, window: 1 << 20, held: 1<<20 - 10_486, text: "/12 99 % full", growth: 4, over: []aim{{"G2", 500}}},
		{pool: "10.0.0.0/8", window: 1 << 24, held: 1 << 20, text: "/8, a million held"},
		{pool: "fd00:1::/64", window: 1 << 24, held: 1 << 20, text: "/64, a million held"},
	}
)

// allocator is what a contender of the core can do.
type allocator interface {
	allocate(want netip.Addr) (netip.Addr, error)
	free(a netip.Addr) error
	pairs(n int) error
}

// shuffled returns the window's addresses but the first and the last, as distances from the pool's.
func (f fill) shuffled() (held, free []int) {
	all := rand.New(rand.NewPCG(1, 1)).Perm(f.window - 2)
	for i := range all {
		all[i]++
	}
	return all[:f.held], all[f.held:]
}

// occupy has held addresses held, at random, claimed one by one.
func (f fill) occupy(a allocator) error {
	base := netip.MustParsePrefix(f.pool).Addr()
	held, _ := f.shuffled()
	for _, o := range held {
		if _, err := a.allocate(nth(base, o)); err != nil {
			return err
		}
	}
	return nil
}

// thin has the same addresses held: it takes all of the pool in order, and frees the others. Where most are held that
// spares the built-in IPAM minutes.
func (f fill) thin(a allocator) error {
	base := netip.MustParsePrefix(f.pool).Addr()
	_, free := f.shuffled()
	for range f.window - 2 {
		if _, err := a.allocate(netip.Addr{}); err != nil {
			return err
		}
	}
	for _, o := range free {
		if err := a.free(nth(base, o)); err != nil {
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

// pairs allocates and frees n times.
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
	held, _ := f.shuffled()
	for _, o := range held {
		m.claim(o)
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
	if len(f.over) > 0 {
		s := newSpaces(f.pool)
		if err := s.occupy(f); err != nil {
			return nil, nil, err
		}
		if err := s.pairs(f.pool, 70_000); err != nil {
			return nil, nil, err
		}
		list = append(list, computing("space", func(n int) error { return s.pairs(f.pool, n) }))
		b, err := newBuiltin(f.pool)
		if err != nil {
			return nil, nil, err
		}
		occupy := f.occupy
		if f.held > f.window/2 {
			occupy = f.thin
		}
		if err := occupy(b); err != nil {
			return nil, nil, err
		}
		list = append(list, computing("built-in", b.pairs))
	}
	return list, m, nil
}

// measurePair measures an allocation and its release in the core, in memory: P1, with G1 and G3.
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
		got: got.times("ringlet", "reference"),
		note: fmt.Sprintf("%s against %s; the bitmap bare takes %s", duration(got.p50("ringlet").median),
			duration(got.p50("reference").median), duration(got.p50("bitmap").median)),
	})
	b.addOver(empty16, "the same", got)
	allocations := testing.AllocsPerRun(10_000, func() { err = m.pairs(1) })
	if err != nil {
		return err
	}
	b.add(row{goal: "P1 G3", what: "allocations of a pair, counted", limit: 0, unit: " ", got: spread{allocations, allocations, allocations}})
	for _, f := range []fill{empty24, empty12} {
		list, _, err := f.contenders()
		if err != nil {
			return err
		}
		got, err := interleave(b.rounds, b.slice, list)
		if err != nil {
			return err
		}
		b.addOver(f, "allocate and free in the core, "+f.text, got)
	}
	return nil
}

// addOver adds a row for each goal of how many times as long as the core the built-in IPAM takes; and one that says it
// of what the prototype of G1 and G2 did.
func (b *bench) addOver(f fill, what string, got results) {
	for _, a := range f.over {
		b.add(row{
			goal: a.goal, what: what + ", against the engine's built-in IPAM", limit: a.limit, least: true,
			got: got.times("built-in", "ringlet"), note: "it takes " + duration(got.p50("built-in").median),
		})
	}
	if len(f.over) > 0 {
		b.add(row{
			goal: "G1", what: "of that the space alone, with a lock, pool by ID, addresses and holders, against the built-in IPAM", limit: noGoal,
			got: got.times("built-in", "space"), note: duration(got.p50("space").median),
		})
	}
}

// measureFills measures the same in pools that are large, fragmented or nearly full: P2, with G2 and G4.
func measureFills(b *bench) error {
	empty := map[string]*machine{} // by pool
	for _, f := range []fill{empty16, empty24, empty12} {
		m, err := newMachine(f.pool)
		if err != nil {
			return err
		}
		if err := m.pairs(70_000); err != nil {
			return err
		}
		empty[f.pool] = m
	}
	for _, f := range fills {
		if b.short && f.window > 1<<16 {
			continue
		}
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		if err := b.measureFill(f, empty); err != nil {
			return fmt.Errorf("%s: %w", f.text, err)
		}
		runtime.GC()
	}
	return nil
}

// measureFill measures one fill against empty pools beside it: the /16, and the same pool.
func (b *bench) measureFill(f fill, empty map[string]*machine) error {
	list, _, err := f.contenders()
	if err != nil {
		return err
	}
	list = append(list, computing("empty /16", empty[empty16.pool].pairs))
	if f.growth > 0 {
		list = append(list, computing("empty", empty[f.pool].pairs))
	}
	got, err := interleave(b.rounds, b.slice, list)
	if err != nil {
		return err
	}
	goal := "P2"
	if f.pool == empty16.pool {
		goal = "P2 G4" // which has the same pool beside it, and allows more
	}
	b.add(row{
		goal: goal, what: f.text + ", against ringlet's own empty /16", limit: 1.5,
		got: got.times("ringlet", "empty /16"), note: duration(got.p50("ringlet").median),
	})
	if f.growth > 0 {
		b.add(row{
			goal: "G4", what: f.text + ", against ringlet's own, the same pool empty", limit: f.growth,
			got: got.times("ringlet", "empty"), note: "that takes " + duration(got.p50("empty").median),
		})
	}
	b.addOver(f, f.text, got)
	return nil
}
