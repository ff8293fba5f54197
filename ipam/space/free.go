package space

import (
	"iter"
	"math/bits"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// FreeIn returns the number of usable addresses in r that are not held,
// rested or not.
func (s *Space) FreeIn(r addr.Range) addr.Count {
	var n addr.Count
	for part := range s.usable(r) {
		n += part.Size()
		for p := range s.pages.in(part) {
			n -= addr.Count(bits.OnesCount64(p.held & p.mask(part)))
		}
	}
	return n
}

// CountHeld returns the number of held addresses in r.
func (s *Space) CountHeld(r addr.Range) addr.Count {
	var n addr.Count
	for p := range s.pages.in(r) {
		n += addr.Count(bits.OnesCount64(p.held & p.mask(r)))
	}
	return n
}

// LargestFree returns the largest aligned block in want that could be given
// away: all of it usable, nothing in it held, nor resting unless resting is
// set, and of at most limit addresses. If several are as large it is the
// lowest; if there is none it is empty. See [addr.Range.LargestBlock].
func (s *Space) LargestFree(want addr.Range, limit addr.Count, resting bool, now time.Time, rest time.Duration) addr.Range {
	var best addr.Range
	if limit == 0 {
		return best
	}
	limit = addr.FloorPow2(limit)
	for r := range s.vacant(want, !resting, now, rest) {
		if r.Size() <= best.Size() {
			continue
		}
		if block := r.LargestBlock(limit); block.Size() > best.Size() {
			best = block
		}
		if best.Size() == limit {
			break
		}
	}
	return best
}

// Idle yields the usable ranges, as long as can be, in which no address is
// held or resting, in order. The space must not be changed meanwhile.
func (s *Space) Idle(now time.Time, rest time.Duration) iter.Seq[addr.Range] {
	return s.vacant(s.pool(), true, now, rest)
}

// usable yields the parts of r that are mine and not set aside, in order, as
// long as can be.
func (s *Space) usable(r addr.Range) iter.Seq[addr.Range] {
	return func(yield func(addr.Range) bool) {
		for mine := range s.mine.within(r) {
			for part := range s.aside.outside(mine) {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// vacant yields the usable parts of want in which nothing is held and, if
// quiet is set, nothing resting.
func (s *Space) vacant(want addr.Range, quiet bool, now time.Time, rest time.Duration) iter.Seq[addr.Range] {
	nanos := now.UnixNano()
	return func(yield func(addr.Range) bool) {
		for part := range s.usable(want) {
			start := part.Start // of the vacant range that goes on
			for p := range s.pages.in(part) {
				m := p.mask(part)
				taken := p.held & m
				if quiet {
					taken |= s.resting(p, p.used&^p.held&m, nanos, rest)
				}
				for taken != 0 {
					first := bits.TrailingZeros64(taken)
					next := first + bits.TrailingZeros64(^(taken >> first)) // may be 64
					from := p.base + addr.Offset(first)
					if start < from && !yield(addr.Range{Start: start, End: from}) {
						return
					}
					start = p.base + addr.Offset(next)
					taken &^= 1<<next - 1
				}
			}
			if start < part.End && !yield(addr.Range{Start: start, End: part.End}) {
				return
			}
		}
	}
}
