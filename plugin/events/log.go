package events

import (
	"context"
	"slices"
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

// New returns the log of a peer's start, as [NewRing]; size is how many events it
// keeps, [DefaultSize] if it is 0.
func New(boot, nonce uint64, size int) *Log {
	if size <= 0 {
		size = DefaultSize
	}
	return &Log{ring: NewRing[entry](boot, nonce, size)}
}

// Note puts in what the node noted at a time. Notes that are no event, being
// told better by another, are left out.
func (l *Log) Note(at time.Time, n ipam.Note) {
	if kind := kindOf(n.Kind); kind != "" {
		l.put(entry{at: at, kind: kind, note: n})
	}
}

// Ask puts in that somebody has asked for a change, as a sentence says.
func (l *Log) Ask(at time.Time, text string) {
	l.put(entry{at: at, kind: Asked, note: ipam.Note{Holder: text}})
}

func (l *Log) put(e entry) { l.ring.Put(e) }

// Last returns the ID of the newest event; its number is 0 if there is none.
func (l *Log) Last() ID { return l.ring.Last() }

// Reader reads events in order. It is not safe for concurrent use.
//
// The events that it returns, and their holders, are valid until it is asked
// again: it makes them where it made the last ones. Their strings stay.
type Reader struct {
	ring   *RingReader[entry]
	silent bool

	list    []Event
	holders []Holder
	text    []byte
	ends    []int // of each string in text
}

// Read returns a reader of what came after an event, as [Ring.Read].
func (l *Log) Read(after ID) *Reader { return &Reader{ring: l.ring.Read(after)} }

// ReadSilent is Read for who tells nobody: the events lack their text.
func (l *Log) ReadSilent(after ID) *Reader { return &Reader{ring: l.ring.Read(after), silent: true} }

// Next returns the events that came since, at least one, and waits for it if
// need be. The error is a [*GapError], after which it can be called again, or ctx's.
func (r *Reader) Next(ctx context.Context) ([]Event, error) { return r.show(r.ring.Next(ctx)) }

// Kept returns events that are there already, none when all were read. The
// error is a [*GapError].
func (r *Reader) Kept() ([]Event, error) { return r.show(r.ring.Kept()) }

// Gather waits for more that is read together, as [RingReader.Gather].
func (r *Reader) Gather(ctx context.Context, d time.Duration) { r.ring.Gather(ctx, d) }

// show makes events of entries. The strings that it makes for them share one
// piece of memory of each kind: one by one they would be most of what an event
// costs.
func (r *Reader) show(entries []entry, first ID, err error) ([]Event, error) {
	r.list = slices.Grow(r.list[:0], len(entries))[:len(entries)]
	r.holders = slices.Grow(r.holders[:0], len(entries))[:len(entries)]
	for i := range entries {
		entries[i].show(&r.list[i], &r.holders[i], first.Plus(uint64(i)))
	}
	r.strings(entries, func(b []byte, i int) []byte { return append(b, entries[i].note.Use.MAC.String()...) },
		func(i int, mac string) { r.holders[i].MAC = mac })
	if !r.silent {
		r.strings(entries, func(b []byte, i int) []byte { return entries[i].sentence(b, &r.list[i]) },
			func(i int, text string) { r.list[i].Text = text })
	}
	return r.list, err
}

// strings makes a string for each entry, all of them in one piece of memory.
func (r *Reader) strings(entries []entry, write func(b []byte, i int) []byte, set func(i int, s string)) {
	r.text, r.ends = r.text[:0], r.ends[:0]
	for i := range entries {
		r.text = write(r.text, i)
		r.ends = append(r.ends, len(r.text))
	}
	all, from := string(r.text), 0
	for i, end := range r.ends {
		set(i, all[from:end])
		from = end
	}
}
