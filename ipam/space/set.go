package space

import (
	"iter"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
)

// set is a set of addresses as ranges: ascending, none empty, and none
// touching the next.
type set []addr.Range //nolint:recvcheck // a slice: only what changes its length takes a pointer

// search returns the index of the first range that ends after o.
func (s set) search(o addr.Offset) int {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); s[mid].End > o {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// contains reports whether o is in the set.
func (s set) contains(o addr.Offset) bool {
	i := s.search(o)
	return i < len(s) && s[i].Start <= o
}

// size returns the number of addresses in the set.
func (s set) size() addr.Count {
	var n addr.Count
	for _, r := range s {
		n += r.Size()
	}
	return n
}

// within yields the parts of r that are in the set, in order. The set must
// not change meanwhile.
func (s set) within(r addr.Range) iter.Seq[addr.Range] {
	return func(yield func(addr.Range) bool) {
		for i := s.search(r.Start); i < len(s) && s[i].Start < r.End; i++ {
			if part := s[i].Intersect(r); !part.Empty() && !yield(part) {
				return
			}
		}
	}
}

// outside yields the parts of r that are not in the set, in order. The set
// must not change meanwhile.
func (s set) outside(r addr.Range) iter.Seq[addr.Range] {
	return func(yield func(addr.Range) bool) {
		start := r.Start
		for part := range s.within(r) {
			if start < part.Start && !yield(addr.Range{Start: start, End: part.Start}) {
				return
			}
			start = part.End
		}
		if start < r.End {
			yield(addr.Range{Start: start, End: r.End})
		}
	}
}

// add puts all of r into the set.
func (s *set) add(r addr.Range) {
	if r.Empty() {
		return
	}
	lo := s.search(r.Start)
	if lo > 0 && (*s)[lo-1].End == r.Start {
		lo--
	}
	hi := lo
	for hi < len(*s) && (*s)[hi].Start <= r.End {
		hi++
	}
	if lo < hi {
		r.Start = min(r.Start, (*s)[lo].Start)
		r.End = max(r.End, (*s)[hi-1].End)
	}
	*s = slices.Replace(*s, lo, hi, r)
}

// remove takes all of r out of the set.
func (s *set) remove(r addr.Range) {
	if r.Empty() {
		return
	}
	lo := s.search(r.Start)
	hi := lo
	for hi < len(*s) && (*s)[hi].Start < r.End {
		hi++
	}
	if lo == hi {
		return
	}
	var rest [2]addr.Range
	n := 0
	if left := (addr.Range{Start: (*s)[lo].Start, End: r.Start}); !left.Empty() {
		rest[n] = left
		n++
	}
	if right := (addr.Range{Start: r.End, End: (*s)[hi-1].End}); !right.Empty() {
		rest[n] = right
		n++
	}
	*s = slices.Replace(*s, lo, hi, rest[:n]...)
}
