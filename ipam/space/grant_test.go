package space

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// take is [Space.Take] with values, for tests that need not be fast.
func (s *Space) take(want addr.Range, h Holder, now time.Time, rest time.Duration) (g Grant, ok bool) {
	ok = s.Take(want, &h, now, rest, &g)
	return g, ok
}

// free is [Space.Free] with values: the record as it is now, whatever happened.
func (s *Space) free(o addr.Offset, now time.Time) (rec Record, changed bool) {
	var f Freeing
	if !s.Free(o, now, &f) {
		return s.Lookup(o), false
	}
	return f.Record, true
}

// former is the one half of [Space.Find].
func (s *Space) former(k Key) (addr.Offset, bool) {
	t := s.Find(k)
	return t.Former, t.IsFormer
}

// granting is a [Grant] that says what was before as a Record.
type granting struct {
	Offset  addr.Offset
	Record  Record
	Before  Record
	Pressed bool
}

func (g Grant) plain() granting {
	out := granting{Offset: g.Offset, Record: g.Record, Pressed: g.Pressed}
	if g.Before.freed {
		g.Before.rec.export(&out.Before, Freed)
	}
	return out
}

// claim is [Space.Claim] with values.
func (s *Space) claim(o addr.Offset, h Holder, now time.Time) (g Grant, out Outcome) {
	out = s.Claim(o, &h, now, &g)
	return g, out
}
