package events

import (
	"context"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// DefaultSize is how many events are kept: at ten starts and stops of
// containers a second, those of the last three minutes.
const DefaultSize = 4096

// Log keeps the last events. Use [New].
type Log struct {
	ring     *Ring[entry]
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
	return &Log{ring: NewRing[entry](boot, size)}
}

// Note puts in what the node noted at a time. Notes that are no event, being
// told better by another, are left out.
func (l *Log) Note(at time.Time, n ipam.Note) {
	if kind := kindOf(n.Kind); kind != "" {
		l.put(entry{at: at, kind: kind, note: n})
	}
}

func (l *Log) put(e entry) { l.ring.Put(e) }

// Last returns the ID of the newest event; its number is 0 if there is none.
func (l *Log) Last() ID { return l.ring.Last() }

// Reader reads events in order. It is not safe for concurrent use.
type Reader struct{ ring *RingReader[entry] }

// Read returns a reader of what came after an event, as [Ring.Read].
func (l *Log) Read(after ID) *Reader { return &Reader{l.ring.Read(after)} }

// Next returns the events that came since, at least one, and waits for it if
// need be. The error is a [*GapError], after which it can be called again, or ctx's.
func (r *Reader) Next(ctx context.Context) ([]Event, error) {
	return eventsOf(r.ring.Next(ctx))
}

// Kept returns events that are there already, none when all were read. The
// error is a [*GapError].
func (r *Reader) Kept() ([]Event, error) { return eventsOf(r.ring.Kept()) }

func eventsOf(entries []entry, first ID, err error) ([]Event, error) {
	var list []Event
	for i, e := range entries {
		list = append(list, e.event(ID{first.Boot, first.Number + uint64(i)}))
	}
	return list, err
}
