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

// segment is a stretch of the pool, up to the start of the next one, with the
// queue of the freed, usable addresses in it.
type segment struct {
	start addr.Offset
	queue
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
	left := &s.segments[n].queue
	list := left.list[left.first:]
	*left = queue{list: left.list[:0]}
	right := segment{start: o}
	for _, t := range list { // the left half moves to the front of what it was in
		switch {
		case t.rec == none:
		case s.offset(t.rec) < o:
			left.push(t)
		default:
			right.push(t)
		}
	}
	s.segments = slices.Insert(s.segments, n+1, right)
	s.first.segments = [1]segment{} // where they lay until now, if this is the second
}

// oldest returns the least recently freed of the usable addresses in want, a
// range inside the pool, or none.
func (s *Space) oldest(want addr.Range) uint32 {
	s.cut(want.Start)
	s.cut(want.End)
	best, seq := none, uint64(0)
	for n := s.segment(want.Start); n < len(s.segments) && s.segments[n].start < want.End; n++ {
		q := &s.segments[n]
		i := q.head()
		if i != none && !want.Covers(s.extent(n)) { // too many segments to cut this one
			i = none
			for j := range q.all() {
				if want.Contains(s.offset(j)) {
					i = j
					break
				}
			}
		}
		if i != none && (best == none || s.slab.rec(i).seq < seq) {
			best, seq = i, s.slab.rec(i).seq
		}
	}
	return best
}

// queueOf returns the queue of the segment that holds o.
func (s *Space) queueOf(o addr.Offset) *queue { return &s.segments[s.segment(o)].queue }

// enqueue puts r, which is record i of address o and was freed just now, at the
// end of its queue.
func (s *Space) enqueue(i uint32, r *record, o addr.Offset) {
	r.form |= isQueued
	s.queueOf(o).push(turn{r.seq, i})
}

// dequeue takes r, which is record i of address o, out of its queue, if it is in one.
func (s *Space) dequeue(i uint32, r *record, o addr.Offset) {
	if !r.queued() {
		return
	}
	r.form &^= isQueued
	s.queueOf(o).remove(turn{r.seq, i})
}

// putBack puts r, which is record i of address o and was freed at some time in the
// past, where its Seq belongs in its queue.
func (s *Space) putBack(i uint32, r *record, o addr.Offset) {
	r.form |= isQueued
	t := turn{r.seq, i}
	q := s.queueOf(o)
	n := q.search(r.seq)
	for ; n < len(q.list) && q.list[n].seq == r.seq; n++ { // of which only a disk can have several
		if i := q.list[n].rec; i != none && s.offset(i) > o {
			break
		}
	}
	q.insert(n, t)
}

// requeue puts records that were freed at some time in the past into their
// queues, each where its Seq belongs. It walks each queue at most once.
func (s *Space) requeue(list []uint32) {
	turns := make([]turn, len(list))
	for n, i := range list {
		r := s.slab.rec(i)
		r.form |= isQueued
		turns[n] = turn{r.seq, i}
	}
	segmentOf := func(t turn) int { return s.segment(s.offset(t.rec)) }
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(segmentOf(a), segmentOf(b)), s.compareTurns(a, b))
	})
	for len(turns) > 0 {
		n, own := segmentOf(turns[0]), 1
		for own < len(turns) && segmentOf(turns[own]) == n {
			own++
		}
		s.segments[n].merge(turns[:own], s.compareTurns)
		turns = turns[own:]
	}
}

// compareTurns orders turns by when the state of their records began. Seqs are unique
// unless a disk says otherwise; then offsets decide.
func (s *Space) compareTurns(a, b turn) int {
	if c := cmp.Compare(a.seq, b.seq); c != 0 {
		return c
	}
	return cmp.Compare(s.offset(a.rec), s.offset(b.rec))
}

// compareSeq orders records as compareTurns does their turns.
func (s *Space) compareSeq(a, b uint32) int {
	return s.compareTurns(turn{s.slab.rec(a).seq, a}, turn{s.slab.rec(b).seq, b})
}
