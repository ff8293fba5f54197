package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// measureHalf compares what a durable pair over the socket takes in a /12 of which half is held at random with a pair of
// the built-in IPAM in process: G13. To get there the built-in IPAM takes minutes, for each claim walks its list of runs.
func measureHalf(b *bench) error {
	f := half12
	if b.short {
		f.window, f.held = 1<<12, 1<<11
	}
	beside, err := newBuiltin(f.pool)
	if err != nil {
		return err
	}
	base := netip.MustParsePrefix(f.pool).Addr()
	held, _ := f.shuffled()
	slices.SortFunc(held, func(a, b int) int { return cmp.Compare(b, a) }) // the last first takes it least
	for _, o := range held {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		if _, err := beside.allocate(nth(base, o)); err != nil {
			return err
		}
	}
	network := ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix(f.pool), Range: netip.MustParsePrefix(f.pool)}
	dir, err := b.sub("half")
	if err != nil {
		return err
	}
	err = makeDatabase(dir, f.held, func(i int) (ipam.Network, netip.Addr) { return network, nth(base, held[i]) })
	if err != nil {
		return err
	}
	e, server, err := b.startOn(dir, "half", network)
	if err != nil {
		return err
	}
	defer server.stop()
	got, err := interleave(b.rounds, 10*b.slice, []contender{
		oneClient("durable", func() (time.Duration, error) {
			took, err := timed(e.next)()
			if err != nil {
				return 0, err
			}
			more, err := timed(e.next)()
			return took + more, err
		}),
		oneClient("built-in", timed(func() error { return beside.pairs(1) })),
	})
	if err != nil {
		return err
	}
	b.add(row{
		goal: "G13", what: f.text + " at random: allocate and free, durable, over the socket, against the engine's built-in IPAM in process", limit: 1,
		got:  got.times("durable", "built-in"),
		note: fmt.Sprintf("%s against %s", duration(got.p50("durable").median), duration(got.p50("built-in").median)),
	})
	return nil
}
