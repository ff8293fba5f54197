package admin

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What a server does for all of its clients together. A reader over TCP is a
// stranger, of whom there may be many, and addresses are granted by the same
// process: see "Limits" in the package comment.
const (
	// maxUnderWay is how many bytes of answers are kept at a time until their
	// clients have read them.
	maxUnderWay = 64 << 20
	// maxLists is how many lists of any length are being written at a time, and
	// maxReaders how many of them read the whole directory.
	maxLists, maxReaders = 8, 2
	// maxListTime is how long a list may take in all.
	maxListTime = 2 * time.Minute
	// maxPasts is how many questions read the journal at a time.
	maxPasts = 2
	// maxRate is how many requests a second are begun over TCP, and burst how many
	// of them at once. Prometheus and people need a few.
	maxRate, burst = 1000, 64
)

// slots bounds how many do something at a time.
type slots chan struct{}

// take waits for a slot, which is given back with what is held. It is false if
// ctx ends before.
func (s slots) take(ctx context.Context, h *holds) bool {
	select {
	case s <- struct{}{}:
		h.add(func() { <-s })
		return true
	case <-ctx.Done():
		return false
	}
}

// holds is what a request holds until its answer is written, or nobody reads it.
type holds struct{ release []func() }

func (h *holds) add(f func()) { h.release = append(h.release, f) }

// free gives back all that is held.
func (h *holds) free() {
	for _, f := range h.release {
		f()
	}
	h.release = nil
}

// budget bounds the bytes that are under way.
type budget struct {
	mu   sync.Mutex
	left int
}

// take takes so many bytes, which are given back with what is held. It is false if
// there are not so many.
func (b *budget) take(n int, h *holds) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	h.add(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.left += n
	})
	return true
}

// crowd is the work of a server that costs processor time. Where the clients are
// strangers it is done one piece after the other, and for three times as long as a
// piece took none is done: it takes a quarter of one processor at most. Nil: there is
// no crowd.
type crowd struct {
	turn slots
	rate *rate.Limiter
}

func newCrowd() *crowd {
	return &crowd{turn: make(slots, 1), rate: rate.NewLimiter(maxRate, burst)}
}

// begin waits until a request may begin.
func (c *crowd) begin(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.rate.Wait(ctx)
}

// rests is how many times as long as a piece of work took is rested after it, for
// longestRest at most.
const (
	rests       = 3
	longestRest = 100 * time.Millisecond
)

// do does a piece of work when it is its turn. It fails only with ctx.
func (c *crowd) do(ctx context.Context, work func()) error {
	if c == nil {
		work()
		return nil
	}
	var h holds
	if !c.turn.take(ctx, &h) {
		return context.Cause(ctx)
	}
	begun := time.Now()
	defer func() { time.AfterFunc(min(rests*time.Since(begun), longestRest), h.free) }()
	work()
	return nil
}

// page is an answer of a handler that writes all at once, kept until it is known
// how long it is.
type page struct {
	header http.Header
	code   int
	text   bytes.Buffer
}

func (p *page) Header() http.Header { return p.header }

func (p *page) WriteHeader(code int) {
	if p.code == 0 {
		p.code = code
	}
}

func (p *page) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.text.Write(b)
}
