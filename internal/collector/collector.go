// Package collector gives the garbage collection more room while there is a load, and gives memory back to the host when it is over. By
// Go's defaults a process with a small heap collects dozens of times a second under load: with 64 clients, in one process with them, a
// durable call took 1.3 times as long (medians of five: 176 and 136 µs) and 1.1 times the processor time. A fixed percentage would
// cost a large heap many times its size.
//
// It refuses to know what the load is: it sees collections come quickly.
package collector

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/ringlet/ringlet/internal/wake"
)

const (
	// usualPercent is Go's own: a collection when the heap has doubled.
	usualPercent = 100
	// roomUnderLoad is how much is allocated between two collections when they
	// come quickly, in bytes, if the heap is smaller than that.
	roomUnderLoad = 32 << 20
	// smallestHeap is what Go collects nothing below of, in bytes, at the usual
	// percentage; at others it is so much more or less.
	smallestHeap = 4 << 20
	// quickly is how soon after the last one a collection shows a load, and still
	// how soon that it goes on, as with more room they come later.
	quickly = time.Second
	still   = 5 * time.Second
	// over is how long there is no collection until the load is taken to be over:
	// with more room they come less quickly.
	over = 10 * time.Second
	// worthwhile is how much has to lie about unused until it is given back to the
	// host when a load is over, in bytes, and a quarter of what is in use: that
	// takes a collection.
	worthwhile = 4 << 20
)

// Collector gives the garbage collection more room while there is a load, which
// would otherwise collect a small heap dozens of times a second. It costs
// [roomUnderLoad] at most, and nothing at rest: a collection that comes late, or
// none for a while, goes back to what is usual. Then what is not needed any more is
// given back to the host, as also after a start.
type Collector struct {
	set  func(percent int) int // [runtime/debug.SetGCPercent]
	free func()                // [runtime/debug.FreeOSMemory]
	seen func(percent int)     // for tests; nil: nobody
}

// New returns the collector of this process.
func New() *Collector { return &Collector{set: debug.SetGCPercent, free: debug.FreeOSMemory} }

// isSet reports whether an operator has set how garbage is collected. It stands.
func isSet() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// Hold has nothing collected until Run begins. What a start reads of the database
// stays, and to go through that whenever it has doubled finds next to nothing.
func (c *Collector) Hold() {
	if !isSet() {
		c.set(-1)
	}
}

// Release ends what Hold began, where Run does not follow.
func (c *Collector) Release() {
	if !isSet() {
		c.set(usualPercent)
	}
}

// Run looks at each collection until ctx ends. Its error is always nil.
func (c *Collector) Run(ctx context.Context) error {
	if isSet() {
		<-ctx.Done()
		return nil
	}
	c.set(usualPercent)
	defer c.set(usualPercent)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	collected := make(chan struct{}, 1)
	rest := time.NewTimer(over)
	defer rest.Stop()
	var last time.Time
	afterCollection(collected)
	for percent := usualPercent; ; {
		want := usualPercent
		select {
		case <-ctx.Done():
			return nil
		case <-rest.C:
			if unused() {
				c.free() // the runtime would take minutes, or keep it
			}
		case <-collected:
			afterCollection(collected)
			rest.Reset(over)
			now := time.Now()
			metrics.Read(live)
			soon := quickly
			if percent > usualPercent {
				soon = still
			}
			if now.Sub(last) < soon {
				want = percentFor(live[0].Value.Uint64())
			}
			last = now
		}
		if want != percent { // it stops the world for a moment
			c.set(want)
			percent = want
		}
		if c.seen != nil {
			c.seen(percent)
		}
	}
}

// unused reports whether so much memory lies about that it is worth to give it
// back: what was freed, and what was made since the last collection.
func unused() bool {
	is := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(is)
	live := is[0].Value.Uint64()
	return is[1].Value.Uint64()+is[2].Value.Uint64() > live+max(worthwhile, live/4)
}

// afterCollection has a channel told of the next collection: it finds something
// that nobody has any more.
func afterCollection(collected chan struct{}) {
	runtime.AddCleanup(new([16]byte), func(collected chan struct{}) {
		wake.Up(collected)
	}, collected)
}

// percentFor returns by how much a heap of which so much is in use may grow under
// load, in percent.
func percentFor(live uint64) int {
	if live >= roomUnderLoad {
		return usualPercent
	}
	const step = 50 // so that it is not set anew all the time
	percent := 100 * roomUnderLoad / max(live, smallestHeap)
	return max(usualPercent, int(percent/step*step)) // 800 at most
}
