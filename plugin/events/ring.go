package events

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Ring keeps the last things of a kind that were put in, in order and numbered.
// Use [NewRing].
type Ring[T any] struct {
	start ID // its number is 0
	size  int

	mu      sync.Mutex
	ring    []T           // what has number n is at (n-1) % size
	last    uint64        // number of the newest; 0: there is none
	changed chan struct{} // closed with the next one; nil: nobody waits
	urgent  chan struct{} // closed with the one that has number hurry; nil: nobody waits
	hurry   uint64
}

// NewRing returns a ring of a peer's start. boot is the peer's, which no earlier
// start with its database had, and nonce what this one has drawn; size is how much
// it keeps.
func NewRing[T any](boot, nonce uint64, size int) *Ring[T] {
	return &Ring[T]{start: ID{Boot: boot, Start: uint32(nonce >> 32)}, size: size}
}

// Put puts something in. It waits for no reader.
func (g *Ring[T]) Put(v T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ring) < g.size {
		g.ring = append(g.ring, v)
	} else {
		g.ring[g.last%uint64(g.size)] = v
	}
	g.last++
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
	if g.urgent != nil && g.last >= g.hurry {
		close(g.urgent)
		g.urgent = nil
	}
}

// Last returns the ID of the newest; its number is 0 if there is none.
func (g *Ring[T]) Last() ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.start.Plus(g.last)
}

// oldest returns the number of the oldest that is kept. g.mu is held.
func (g *Ring[T]) oldest() uint64 { return g.last - uint64(len(g.ring)) + 1 }

// GapError is the error of a reader that missed events. It can read on.
type GapError struct {
	After  ID // the last event that was read, or was to be
	Before ID // the first one that is there
}

// Error says what is missing.
func (g *GapError) Error() string {
	return fmt.Sprintf("events after %v are not kept any more; those from %v on are", g.After, g.Before)
}

// RingReader reads in order. It is not safe for concurrent use. What it returns
// is valid until it is asked again.
type RingReader[T any] struct {
	from *Ring[T]
	next uint64
	gap  *GapError
	list []T // what it returned last
}

// Read returns a reader of what came after an ID; the zero ID: of all that is
// kept. If what came next is kept no more, or the ID is not of this start, the
// first call of Next says so.
func (g *Ring[T]) Read(after ID) *RingReader[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &RingReader[T]{from: g, next: g.oldest()}
	switch {
	case after.IsZero():
	case after.Boot == g.start.Boot && after.Start == g.start.Start && after.Number >= r.next-1 && after.Number <= g.last:
		r.next = after.Number + 1
	default:
		r.gap = &GapError{after, g.start.Plus(r.next)}
	}
	return r
}

// MaxBatch is how much a reader returns at a time, at most.
const MaxBatch = 256

// Next returns what came since, at least one, with the ID of the first, and
// waits for it if need be. The error is a [*GapError], after which it can be
// called again, or ctx's.
func (r *RingReader[T]) Next(ctx context.Context) ([]T, ID, error) {
	for {
		list, first, wait, err := r.take(true)
		if err != nil || len(list) > 0 {
			return list, first, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ID{}, context.Cause(ctx)
		}
	}
}

// Kept returns what is there already, none when all was read. The error is a
// [*GapError].
func (r *RingReader[T]) Kept() ([]T, ID, error) {
	list, first, _, err := r.take(false)
	return list, first, err
}

// take returns what is there, or, if it is to, what to wait for.
func (r *RingReader[T]) take(toWait bool) (list []T, first ID, wait chan struct{}, err error) {
	g := r.from
	g.mu.Lock()
	defer g.mu.Unlock()
	if oldest := g.oldest(); r.gap == nil && r.next < oldest {
		r.gap = &GapError{g.start.Plus(r.next - 1), g.start.Plus(oldest)}
		r.next = oldest
	}
	if gap := r.gap; gap != nil {
		r.gap = nil
		return nil, ID{}, nil, gap
	}
	first = g.start.Plus(r.next)
	list = r.list[:0]
	for ; r.next <= g.last && len(list) < MaxBatch; r.next++ {
		list = append(list, g.ring[(r.next-1)%uint64(g.size)])
	}
	r.list = list
	if toWait && len(list) == 0 {
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		wait = g.changed
	}
	return list, first, wait, nil
}

// Gather waits so that what comes is read together: for some time, but no
// longer than until half of what is kept has come, or ctx ends. Who reads and
// gathers in turn misses nothing that it is quick enough for.
func (r *RingReader[T]) Gather(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		hurry := r.hurry()
		if hurry == nil {
			return
		}
		select {
		case <-hurry: // maybe for another reader, which is further behind
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hurry returns what is closed when half of what is kept has come; nil if it
// has.
func (r *RingReader[T]) hurry() chan struct{} {
	g := r.from
	g.mu.Lock()
	defer g.mu.Unlock()
	at := r.next + uint64(max(g.size/2, 1)) - 1
	if g.last >= at {
		return nil
	}
	if g.urgent == nil {
		g.urgent, g.hurry = make(chan struct{}), at
	}
	g.hurry = min(g.hurry, at)
	return g.urgent
}
