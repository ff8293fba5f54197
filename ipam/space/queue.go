package space

import (
	"cmp"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
)

// maxSegments bounds the number of segments, and so what a Take of the whole
// pool compares. Docker networks with different --ip-range in one pool are
// few; past this many, a Take whose range cuts a segment walks its queue.
const maxSegments = 256

// segment is a stretch of the pool, up to the start of the next one, and the
// queue of the freed, usable addresses in it, in order of Seq.
type segment struct {
	start      addr.Offset
	head, tail uint32 // least and most recently freed, or none
}

// segment returns the index of the segment that holds o.
func (s *Space) segment(o addr.Offset) int {
	lo, hi := 0, len(s.segments)-1
	for lo < hi {
		if mid := int(uint(lo+hi+1) / 2); s.segments[mid].start <= o {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// extent returns the range of segment n.
func (s *Space) extent(n int) addr.Range {
	r := addr.Range{Start: s.segments[n].start, End: s.end}
	if n+1 < len(s.segments) {
		r.End = s.segments[n+1].start
	}
	return r
}

// cut lets a segment start at o, unless there are too many already. Each
// place is cut once in the life of a space, at a cost that grows with the
// queue; the order in both halves stays.
func (s *Space) cut(o addr.Offset) {
	if o == 0 || o >= s.end {
		return
	}
	n := s.segment(o)
	if s.segments[n].start == o || len(s.segments) >= maxSegments {
		return
	}
	i := s.segments[n].head
	s.segments[n].head, s.segments[n].tail = none, none
	s.segments = slices.Insert(s.segments, n+1, segment{start: o})
	for i != none {
		next := s.slab.rec(i).next
		half := &s.segments[n]
		if s.offset(i) >= o {
			half = &s.segments[n+1]
		}
		s.insertAfter(half, half.tail, i, s.slab.rec(i))
		i = next
	}
}

// oldest returns the least recently freed of the usable addresses in want, a
// range inside the pool, or none.
func (s *Space) oldest(want addr.Range) uint32 {
	s.cut(want.Start)
	s.cut(want.End)
	best, seq := none, uint64(0)
	for n := s.segment(want.Start); n < len(s.segments) && s.segments[n].start < want.End; n++ {
		i := s.segments[n].head
		if i == none {
			continue
		}
		if !want.Covers(s.extent(n)) { // too many segments to cut this one
			for i != none && !want.Contains(s.offset(i)) {
				i = s.slab.rec(i).next
			}
		}
		if i != none && (best == none || s.slab.rec(i).seq < seq) {
			best, seq = i, s.slab.rec(i).seq
		}
	}
	return best
}

// insertAfter links r, which is record i, into the queue behind record at, or in
// front of all if at is none.
func (s *Space) insertAfter(q *segment, at, i uint32, r *record) {
	r.form |= isQueued
	r.prev = at
	if at == none {
		r.next = q.head
		q.head = i
	} else {
		before := s.slab.rec(at)
		r.next = before.next
		before.next = i
	}
	if r.next == none {
		q.tail = i
	} else {
		s.slab.rec(r.next).prev = i
	}
}

// enqueue puts r, which is record i of address o and was freed just now, at the
// end of its queue.
func (s *Space) enqueue(i uint32, r *record, o addr.Offset) {
	q := &s.segments[s.segment(o)]
	s.insertAfter(q, q.tail, i, r)
}

// dequeue takes the record of o out of its queue, if it is in one.
func (s *Space) dequeue(r *record, o addr.Offset) {
	if !r.queued() {
		return
	}
	if r.prev == none || r.next == none { // an end, so the segment knows it
		q := &s.segments[s.segment(o)]
		if r.prev == none {
			q.head = r.next
		}
		if r.next == none {
			q.tail = r.prev
		}
	}
	if r.prev != none {
		s.slab.rec(r.prev).next = r.next
	}
	if r.next != none {
		s.slab.rec(r.next).prev = r.prev
	}
	r.prev, r.next = none, none
	r.form &^= isQueued
}

// requeue puts records that were freed at some time in the past into their
// queues, each where its Seq belongs. It walks each queue at most once, from
// the end. The order of the slice changes.
func (s *Space) requeue(list []uint32) {
	slices.SortFunc(list, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(s.segment(s.offset(a)), s.segment(s.offset(b))), s.compareSeq(b, a))
	})
	var q *segment
	at := none
	for _, i := range list { // within a segment, from the most recently freed
		if own := &s.segments[s.segment(s.offset(i))]; own != q {
			q, at = own, own.tail
		}
		if q.head != none && s.compareSeq(i, q.head) < 0 {
			at = none
		}
		for at != none && s.compareSeq(i, at) < 0 {
			at = s.slab.rec(at).prev
		}
		s.insertAfter(q, at, i, s.slab.rec(i))
	}
}

// compareSeq orders records by when their state began. Seqs are unique unless
// a disk says otherwise; then offsets decide.
func (s *Space) compareSeq(a, b uint32) int {
	return cmp.Or(cmp.Compare(s.slab.rec(a).seq, s.slab.rec(b).seq), cmp.Compare(s.offset(a), s.offset(b)))
}
