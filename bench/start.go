package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
)

// manyNetworks is how many networks share what is held where it is not all in one.
const manyNetworks = 1_000

// measureStart measures a start with what is held, and what that takes of memory: P8 and P9, with G16 to G18.
func measureStart(b *bench) error {
	held, networks := 100_000, subnets(manyNetworks, 20)
	if b.short {
		held, networks = 1_000, networks[:10]
	}
	in, err := b.makeStart(held, networks)
	if err != nil {
		return err
	}
	bin, err := b.binary("ringlet", "..", "./plugin")
	if err != nil {
		return err
	}
	// As in a start of the process nothing is collected meanwhile. What it leaves others do not pay for, either.
	start := func(name, dir string) contender {
		return told(name, func() (time.Duration, error) {
			defer runtime.GC()
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			return worked(func() error {
				_, store, err := openNode(dir)
				if err != nil {
					return err
				}
				return store.Close()
			})()
		})
	}
	got, err := interleave(b.rounds, 0, []contender{
		start("start", in.one),
		start("start, many networks", in.many),
		working("packed", func() error { return loadPacked(in.packed) }),
		working("flat", func() error { return loadFlat(in.flat) }),
		working("replay", func() error { return replay(networks, held/len(networks)) }),
		working("check", func() error { return persist.CheckFile(filepath.Join(in.one, "ringlet.db")) }),
		once("bare", func() error { return exec.CommandContext(b.ctx, bin, "version").Run() }),
		told("process", func() (time.Duration, error) {
			begun := time.Now()
			p, err := b.startRinglet(in.one)
			if err != nil {
				return 0, err
			}
			took := time.Since(begun)
			p.stop()
			return took, nil
		}),
	})
	if err != nil {
		return err
	}
	b.addStart(got, held, len(networks))
	return b.measureHeap(in.one, in.many, held, len(networks))
}

// starts is where what is held lies on disk, in the forms that are compared.
type starts struct{ one, many, packed, flat string }

// makeStart makes the databases and files of measureStart.
func (b *bench) makeStart(held int, networks []ipam.Network) (in starts, err error) {
	in.packed, in.flat = filepath.Join(b.dir, "packed.db"), filepath.Join(b.dir, "flat")
	if in.one, err = b.sub("held"); err != nil {
		return in, err
	}
	if in.many, err = b.sub("held-in-many"); err != nil {
		return in, err
	}
	return in, errors.Join(makeHeld(in.one, held, network8), makeHeld(in.many, held, networks...),
		makePacked(in.packed, held), makeFlat(in.flat, held))
}

// addStart adds the rows of a start with so many addresses held, and in so many networks.
func (b *bench) addStart(got results, held, networks int) {
	against := func(goal, what, subject, floor string, limit float64, more string) {
		b.add(row{
			goal: goal, what: what, limit: limit, got: got.times(subject, floor),
			note: fmt.Sprintf("%s against %s", duration(got.p50(subject).median), duration(got.p50(floor).median)) + more,
		})
	}
	against("P8", fmt.Sprintf("start with %d held, in process, with the check of the file, against reading as many packed records from bbolt", held), "start", "packed", 2,
		"; the check alone takes "+duration(got.p50("check").median))
	against("G16", "the same, against reading as many records of 20 bytes from a flat file into bitmaps and a map", "start", "flat", 2, "")
	against("G16", "the whole process, until its first answer, against a start of the same program that tells its version", "process", "bare", 6, "")
	against("G17", fmt.Sprintf("start with %d held in %d networks, in process, against the engine's built-in IPAM being asked for them again", held, networks),
		"start, many networks", "replay", 0.2, "")
}
