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

// claim is [Space.Claim] with values.
func (s *Space) claim(o addr.Offset, h Holder, now time.Time) (g Grant, out Outcome) {
	out = s.Claim(o, &h, now, &g)
	return g, out
}
