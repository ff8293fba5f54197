package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
)

// watchProcessors returns processors that run, and what they use.
func watchProcessors(t *testing.T) (p *processors, all func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p = newProcessors()
	var used atomic.Bool
	used.Store(true)
	p.one, p.all = func() { used.Store(false) }, func() { used.Store(true) }
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil || !used.Load() {
			t.Errorf("at the end: %v, all are used: %v", err, used.Load())
		}
	})
	return p, func() bool { synctest.Wait(); return used.Load() }
}

// load has something come so often, for so long.
func load(p *processors, every, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(every) {
		p.came()
	}
}

func TestProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	bubble.Test(t, func(t *testing.T) {
		p, all := watchProcessors(t)
		if !all() {
			t.Error("a process that has just started has one processor")
		}
		time.Sleep(2 * over)
		if all() {
			t.Error("at rest it has all")
		}
		for _, every := range []time.Duration{time.Minute, time.Second, burstTime / (burst - 1)} {
			load(p, every, time.Minute)
			if all() {
				t.Errorf("of one request in %v there is a load", every)
			}
		}
		for first := range burst { // whatever came before
			for range first {
				p.came()
				time.Sleep(over)
			}
			for range 2 * burst {
				p.came()
			}
			if !all() {
				t.Errorf("of %d requests at once, %d after others, there is no load", 2*burst, first)
			}
			time.Sleep(2 * over)
			if all() {
				t.Error("when the load is over it has all")
			}
		}
		p.observe(func(string, string, time.Duration) {})("call", "ok", longCall)
		if !all() {
			t.Error("of a request that took long there is no load")
		}
		load(p, 10*time.Millisecond, time.Hour)
		if !all() {
			t.Error("a load that lasts has one processor")
		}
		time.Sleep(2 * over)
		if all() {
			t.Error("when the load is over it has all")
		}
	})
}

// TestProcessorsCount counts what servers and the network bring, all of which goes on to where it is to go.
func TestProcessorsCount(t *testing.T) {
	p := newProcessors()
	var got []string
	p.observe(func(call, result string, took time.Duration) { got = append(got, fmt.Sprint(call, result, took)) })("call", "ok", time.Second)
	p.deliver(func(arrived iter.Seq2[[]byte, int]) {
		for frame, seat := range arrived {
			if got = append(got, fmt.Sprint(string(frame), seat)); seat == 2 {
				return
			}
		}
	})(func(yield func([]byte, int) bool) {
		_ = yield([]byte("a"), 1) && yield([]byte("b"), 2) && yield([]byte("c"), 3)
	})
	if want := []string{"callok1s", "a1", "b2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := p.count.Load(); n != 3 {
		t.Errorf("%d are counted, want 3", n)
	}
}

// TestProcessorsLeaveSetting: what an operator has set stands.
func TestProcessorsLeaveSetting(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := newProcessors()
	p.one, p.all = func() { t.Error("set to one") }, func() { t.Error("set to all") }
	if err := p.run(ctx); err != nil {
		t.Error(err)
	}
}
