package events

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// DefaultSize is how many events are kept: at ten starts and stops of
// containers a second, those of the last three minutes.
const DefaultSize = 4096

// Log keeps the last events. Use [New].
type Log struct {
	boot uint64
	size int

	mu      sync.Mutex
	ring    []entry       // the event with number n is at (n-1) % size
	last    uint64        // number of the newest; 0: there is none
	changed chan struct{} // closed with the next event; nil: nobody waits

	problems problems
}

// entry is an event as it was put in; words are made when it is read.
type entry struct {
	at      time.Time
	kind    string
	note    ipam.Note
	problem *ipam.Problem
}

// New returns the log of a peer's start. boot is the peer's, which no earlier
// start had; size is how many events it keeps, [DefaultSize] if it is 0.
func New(boot uint64, size int) *Log {
	if size <= 0 {
		size = DefaultSize
	}
	return &Log{boot: boot, size: size}
}

// Note puts in what the node noted at a time. Notes that are no event, being
// told better by another, are left out.
func (l *Log) Note(at time.Time, n ipam.Note) {
	if kind := kindOf(n.Kind); kind != "" {
		l.put(entry{at: at, kind: kind, note: n})
	}
}

func (l *Log) put(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < l.size {
		l.ring = append(l.ring, e)
	} else {
		l.ring[l.last%uint64(l.size)] = e
	}
	l.last++
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Last returns the ID of the newest event; its number is 0 if there is none.
func (l *Log) Last() ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ID{l.boot, l.last}
}

// oldest returns the number of the oldest event that is kept. l.mu is held.
func (l *Log) oldest() uint64 { return l.last - uint64(len(l.ring)) + 1 }

// GapError is the error of a reader that missed events. It can read on.
type GapError struct {
	After  ID // the last event that was read, or was to be
	Before ID // the first one that is there
}

// Error says what is missing.
func (g *GapError) Error() string {
	return fmt.Sprintf("events after %v are not kept any more; those from %v on are", g.After, g.Before)
}

// Reader reads events in order. It is not safe for concurrent use.
type Reader struct {
	log  *Log
	next uint64
	gap  *GapError
}

// Read returns a reader of what came after an event; the zero ID: of all that
// is kept. If what came next is kept no more, or the event is not of this peer,
// the first call of Next says so.
func (l *Log) Read(after ID) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &Reader{log: l, next: l.oldest()}
	switch {
	case after.IsZero():
	case after.Boot == l.boot && after.Number >= r.next-1 && after.Number <= l.last:
		r.next = after.Number + 1
	default:
		r.gap = &GapError{after, ID{l.boot, r.next}}
	}
	return r
}

// maxBatch is how many events Next returns at most.
const maxBatch = 256

// Next returns the events that came since, at least one, and waits for it if
// need be. The error is a [*GapError], after which it can be called again, or ctx's.
func (r *Reader) Next(ctx context.Context) ([]Event, error) {
	for {
		list, wait, err := r.take(true)
		if err != nil || len(list) > 0 {
			return list, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Kept returns events that are there already, none when all were read. The
// error is a [*GapError].
func (r *Reader) Kept() ([]Event, error) {
	list, _, err := r.take(false)
	return list, err
}

// take returns what is there, or, if it is to, what to wait for.
func (r *Reader) take(toWait bool) (list []Event, wait chan struct{}, err error) {
	r.log.mu.Lock()
	var entries []entry
	if oldest := r.log.oldest(); r.gap == nil && r.next < oldest {
		r.gap = &GapError{ID{r.log.boot, r.next - 1}, ID{r.log.boot, oldest}}
		r.next = oldest
	}
	first := r.next
	for ; r.gap == nil && r.next <= r.log.last && len(entries) < maxBatch; r.next++ {
		entries = append(entries, r.log.ring[(r.next-1)%uint64(r.log.size)])
	}
	if toWait && len(entries) == 0 {
		if r.log.changed == nil {
			r.log.changed = make(chan struct{})
		}
		wait = r.log.changed
	}
	r.log.mu.Unlock()

	if r.gap != nil {
		gap := r.gap
		r.gap = nil
		return nil, nil, gap
	}
	for i, e := range entries {
		list = append(list, e.event(ID{r.log.boot, first + uint64(i)}))
	}
	return list, wait, nil
}
