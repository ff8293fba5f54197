package collector

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentFor(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, 800},
		{1 << 20, 800},
		{4 << 20, 800},
		{10 << 20, 300},
		{31 << 20, 100},
		{32 << 20, 100},
		{1 << 30, 100},
	} {
		got := percentFor(tt.live)
		if got != tt.want {
			t.Errorf("%d in use: %d %%, want %d %%", tt.live, got, tt.want)
		}
		if room := max(tt.live, smallestHeap) * uint64(got) / 100; room > max(roomUnderLoad, tt.live) {
			t.Errorf("%d in use: room for %d bytes", tt.live, room)
		}
	}
}

// TestCollector collects twice, one after the other, which is a load; at its end
// everything is as it was.
func TestCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetGCPercent(debug.SetGCPercent(usualPercent))
	seen := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := &Collector{set: debug.SetGCPercent, free: func() {}, seen: func(percent int) {
		select {
		case seen <- percent:
		case <-ctx.Done():
		}
	}}
	c.Hold()
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("during a start it is %d %%", got)
	}
	c.Release()
	if got := debug.SetGCPercent(-1); got != usualPercent {
		t.Errorf("after a start that failed it is %d %%", got)
	}
	go func() { ended <- c.Run(ctx) }()
	next := func() int {
		for {
			select {
			case percent := <-seen:
				return percent
			default:
				runtime.GC()
			}
		}
	}
	next()
	for next() <= usualPercent { // a busy machine may take a second for two
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := debug.SetGCPercent(usualPercent); got != usualPercent {
		t.Errorf("afterwards it is %d %%", got)
	}
}

// TestUnused: what a start has left behind is worth giving back, and once it is
// there is nothing more to give.
func TestUnused(t *testing.T) {
	left := make([]byte, 100<<20)
	runtime.GC()
	runtime.KeepAlive(left)
	left = nil
	runtime.GC()
	if !unused() {
		t.Error("100 MiB that lie about are not noticed")
	}
	debug.FreeOSMemory()
	if unused() {
		t.Error("what was given back lies about still")
	}
	_ = left
}

// TestCollectorLeavesSettings: what an operator has set stands.
func TestCollectorLeavesSettings(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(name, "50")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			c := &Collector{set: func(percent int) int { t.Errorf("set to %d %%", percent); return 0 }}
			c.Hold()
			c.Release()
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
