package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

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
	inOne, err := b.sub("held")
	if err != nil {
		return err
	}
	if err := makeHeld(inOne, held, network8); err != nil {
		return err
	}
	inMany, err := b.sub("held-in-many")
	if err != nil {
		return err
	}
	if err := makeHeld(inMany, held, networks...); err != nil {
		return err
	}
	packed, flat := filepath.Join(b.dir, "packed.db"), filepath.Join(b.dir, "flat")
	if err := makePacked(packed, held); err != nil {
		return err
	}
	if err := makeFlat(flat, held); err != nil {
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
		start("start", inOne),
		start("start, many networks", inMany),
		working("packed", func() error { return loadPacked(packed) }),
		working("flat", func() error { return loadFlat(flat) }),
		working("replay", func() error { return replay(networks, held/len(networks)) }),
		working("check", func() error { return persist.CheckFile(filepath.Join(inOne, "ringlet.db")) }),
		once("bare", func() error { return exec.CommandContext(b.ctx, bin, "version").Run() }),
		told("process", func() (time.Duration, error) {
			begun := time.Now()
			p, err := b.startRinglet(inOne)
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
	against("G17", fmt.Sprintf("start with %d held in %d networks, in process, against the engine's built-in IPAM being asked for them again", held, len(networks)),
		"start, many networks", "replay", 0.2, "")
	return b.measureHeap(inOne, inMany, held, len(networks))
}
