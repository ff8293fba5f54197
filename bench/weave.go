package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// weave is Weave Net's allocator in a process of its own, see bench/weave.
type weave struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (b *bench) startWeave(bin string, args ...string) (*weave, error) {
	w := &weave{cmd: exec.CommandContext(b.ctx, bin, args...)}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.out = bufio.NewScanner(out)
	if !w.out.Scan() || w.out.Text() != "ready" {
		w.stop()
		return nil, fmt.Errorf("weave says %q instead of that it is ready", w.out.Text())
	}
	return w, nil
}

func (w *weave) stop() {
	_ = w.in.Close()
	_ = w.cmd.Wait()
}

// pairs has it allocate and free. What counts is either the clock or its processor time.
func (w *weave) pairs(name string, clock bool) contender {
	return contender{name, func(slice time.Duration) (sample, error) {
		if _, err := fmt.Fprintln(w.in, slice.Nanoseconds()); err != nil {
			return sample{}, err
		}
		if !w.out.Scan() {
			return sample{}, fmt.Errorf("weave has ended: %w", w.out.Err())
		}
		var passed, used float64
		if _, err := fmt.Sscan(w.out.Text(), &passed, &used); err != nil {
			return sample{}, err
		}
		if clock {
			return sample{p50: passed}, nil
		}
		return sample{p50: used}, nil
	}}
}

// measureWeave compares ringlet with the allocator of Weave Net, whose problem was the same: with its core in processor
// time, with its durable calls in process by the clock.
func measureWeave(b *bench) error {
	if !b.weave {
		b.leaveOut("Weave's allocator, which is compared with -weave alone: it is built from modules that are fetched for it")
		return nil
	}
	bin, err := b.binary("weave", "weave", ".")
	if err != nil {
		return err
	}
	dir, err := b.sub("weave-durable")
	if err != nil {
		return err
	}
	const held = 1_000
	if err := makeHeld(dir, held, network8); err != nil {
		return err
	}
	n, store, err := openNode(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	durable := &caller{node: n, net: network8, name: "durable"}
	list := []contender{oneClient("ringlet durable", timed(durable.pair))}
	for _, f := range []fill{empty16, fills[0]} {
		m, err := newMachine(f.pool)
		if err != nil {
			return err
		}
		if err := f.occupy(m); err != nil {
			return err
		}
		if err := m.pairs(70_000); err != nil {
			return err
		}
		w, err := b.startWeave(bin, "-pool", f.pool, "-held", fmt.Sprint(max(f.held-2, 0)), "-random")
		if err != nil {
			return err
		}
		defer w.stop()
		list = append(list, computing("ringlet "+f.text, m.pairs), w.pairs(f.text, false))
	}
	databases := map[string]string{"none held": "0", "1,000 held": fmt.Sprint(held)}
	for text, n := range databases {
		in, err := b.sub("weave " + text)
		if err != nil {
			return err
		}
		w, err := b.startWeave(bin, "-pool", "10.50.0.0/16", "-held", n, "-db", in)
		if err != nil {
			return err
		}
		defer w.stop()
		list = append(list, w.pairs(text, true))
	}
	got, err := interleave(b.rounds, 5*b.slice, list)
	if err != nil {
		return err
	}
	b.addWeave(got)
	return nil
}

// addWeave adds the rows that compare ringlet with Weave Net.
func (b *bench) addWeave(got results) {
	for _, f := range []fill{empty16, fills[0]} {
		b.add(row{
			goal: "P2", what: "Weave's allocator without a database, " + f.text + ", against ringlet's core", limit: noGoal, got: got.times(f.text, "ringlet "+f.text),
			note: fmt.Sprintf("%s against %s", duration(got.p50(f.text).median), duration(got.p50("ringlet "+f.text).median)),
		})
	}
	for _, text := range []string{"none held", "1,000 held"} {
		b.add(row{
			goal: "P3", what: "Weave's allocator with its database, /16, " + text + ", allocates and frees, against ringlet in process, durable, 1,000 held", limit: noGoal,
			got: got.times(text, "ringlet durable"), note: fmt.Sprintf("%s against %s", duration(got.p50(text).median), duration(got.p50("ringlet durable").median)),
		})
	}
}
