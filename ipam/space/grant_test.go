package space

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// take is [Space.Take] with values, for tests that need not be fast.
func (s *Space) take(want addr.Range, h Holder, now time.Time, rest time.Duration) (g given, ok bool) {
	if g.Grant, ok = s.Take(want, &h, now, rest, &g.before); ok {
		g.record = s.Lookup(g.Offset)
	}
	return g, ok
}

// given is a [Grant] with what was before it, and the record as it was then.
type given struct {
	Grant
	before Past
	record Record
}

// free is [Space.Free] with values: the record as it is now, whatever happened.
func (s *Space) free(o addr.Offset, now time.Time) (rec Record, changed bool) {
	var f Freeing
	if changed = s.Free(o, now, &f); !changed || f.State == Unused {
		return s.Lookup(o), changed
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

func (g given) plain() granting {
	out := granting{Offset: g.Offset, Record: g.record, Pressed: g.Pressed}
	if g.before.freed {
		g.before.rec.export(&out.Before, Freed)
	}
	return out
}

// claim is [Space.Claim] with values.
func (s *Space) claim(o addr.Offset, h Holder, now time.Time) (g given, out Outcome) {
	if g.Grant, out = s.Claim(o, &h, now, &g.before); out == Taken {
		g.record = s.Lookup(o)
	}
	return g, out
}
