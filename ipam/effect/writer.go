package effect

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Writer fills an [Out], in the order in which its methods are called. Use [NewWriter].
type Writer struct {
	out     *Out
	arena   []byte // backs the keys and values in out.Save
	letters []letter
	now     time.Time
	nanos   int64 // that in nanoseconds since 1970
	shown   shown
}

// letter is what [Writer.Post] turns into a frame.
type letter struct {
	to   peer.ID
	body wire.Body
}

// NewWriter returns a writer that fills out.
func NewWriter(out *Out) Writer { return Writer{out: out} }

// Reset begins a step at that time. What the last one put into the Out is not valid any more, and its memory is used again.
func (w *Writer) Reset(now time.Time) {
	o := w.out
	w.now, w.nanos = now, now.UnixNano()
	o.Save, o.Send, o.Note = o.Save[:0], o.Send[:0], o.Note[:0]
	o.Beat, o.WakeAt = nil, time.Time{}
	w.arena = w.arena[:0]
}

// Now returns the time of the step, which is the same for all of it.
func (w *Writer) Now() time.Time { return w.now }

// Nanos returns it in nanoseconds since 1970, as most of what is remembered is compared in each step.
func (w *Writer) Nanos() int64 { return w.nanos }

// Passed reports whether so long has passed since a time, or somebody has set the clock back behind it.
func (w *Writer) Passed(d time.Duration, since time.Time) bool {
	passed := w.now.Sub(since)
	return passed >= d || passed < 0
}

// Put writes a record. It copies key and value.
func (w *Writer) Put(bucket, key string, value []byte) {
	b := append(w.arena, key...)
	w.PutBuffer(bucket, append(b, value...), len(b))
}

// Delete deletes a key. It copies the key.
func (w *Writer) Delete(bucket, key string) {
	from := len(w.arena)
	b := append(w.arena, key...)
	w.arena = b
	r := another(&w.out.Save)
	r.Bucket, r.Key, r.Value = bucket, b[from:len(b):len(b)], nil
}

// Buffer returns a slice to which the next record is to be appended: its key, then its value. [Writer.PutBuffer] takes
// what comes of that. Nothing else may be written between the two, and what the slice has already is not to be touched.
func (w *Writer) Buffer() []byte { return w.arena }

// PutBuffer writes the record that was appended to [Writer.Buffer], without a copy. buf[split:] is its value.
func (w *Writer) PutBuffer(bucket string, buf []byte, split int) {
	from := len(w.arena)
	w.arena = buf
	r := another(&w.out.Save)
	r.Bucket, r.Key, r.Value = bucket, buf[from:split:split], buf[split:len(buf):len(buf)]
}

// Note adds a note and returns it, for the caller to set all of it: the note may have what an earlier one had. A note is
// large, and there is one for each address that comes or goes, so it is made in place.
func (w *Writer) Note() *Note { return another(&w.out.Note) }

// LastNote returns the note that was added last, to be extended; nil if there is none yet.
func (w *Writer) LastNote() *Note {
	if len(w.out.Note) == 0 {
		return nil
	}
	return &w.out.Note[len(w.out.Note)-1]
}

// Send sends a body to another peer, under the header that [Writer.Post] is given. To [peer.None] it is a hint for
// everybody.
func (w *Writer) Send(to peer.ID, body wire.Body) { w.letters = append(w.letters, letter{to, body}) }

// Unposted reports whether bodies wait for [Writer.Post].
func (w *Writer) Unposted() bool { return len(w.letters) > 0 }

// Post turns what was sent into frames. Their header is that of the end of a step, since it says what their author knows.
func (w *Writer) Post(h wire.Header) {
	for _, l := range w.letters {
		h.To = l.to
		w.out.Send = append(w.out.Send, Send{To: l.to, Frame: wire.Encode(nil, &wire.Frame{Header: h, Body: l.body})})
	}
	clear(w.letters)
	w.letters = w.letters[:0]
}

// shown is what the last beat showed.
type shown struct {
	slot    uint64
	boot    peer.Boot
	cluster [16]byte
}

// HasShown reports whether the last beat showed that a start of this peer knows a slot of a cluster.
func (w *Writer) HasShown(slot uint64, boot peer.Boot, cluster [16]byte) bool {
	return w.shown == shown{slot, boot, cluster}
}

// Beat has the carrier show others what this peer knows.
func (w *Writer) Beat(h wire.Header) {
	w.shown = shown{h.Slot, h.Boot, h.Cluster}
	w.out.Beat = wire.Encode(nil, &wire.Frame{Header: h, Body: wire.Beat{}})
}

// WakeAt asks for a step at that time, or earlier where an earlier time is asked for as well.
func (w *Writer) WakeAt(t time.Time) {
	//nolint:staticcheck // with IsZero it is too long to be inlined, and each call asks
	if w.out.WakeAt == (time.Time{}) || t.Before(w.out.WakeAt) {
		w.out.WakeAt = t
	}
}

// another appends an element to a list, to be filled in place, as what is large should be. It may have what was in its
// place before.
func another[T any](list *[]T) *T {
	n := len(*list)
	if n == cap(*list) {
		*list = slices.Grow(*list, 1)
	}
	*list = (*list)[:n+1]
	return &(*list)[n]
}
