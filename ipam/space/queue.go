package space

import (
	"cmp"
	"iter"
	"slices"
)

// turn is the place of a record in a queue.
type turn struct {
	seq uint64 // of the record
	rec uint32 // none if it has left
}

// queue holds records in the order in which they were freed, which is that of their Seqs.
// Most leave it at the front; one that leaves from the middle leaves its turn behind, until
// there are too many of those. So a record need not know its neighbours: that would cost
// each one that is held eight bytes, and each that comes or goes a look at them.
//
// The zero queue is empty. Of a queue that is not, the first turn and the last are those
// of records, and of all between them no more are over than minQueue and as many as are not.
type queue struct {
	list  []turn // in order of Seq
	first int    // those before it are over
	live  int    // records in it
}

// head returns the record that was freed first, or none.
func (q *queue) head() uint32 {
	if q.live == 0 {
		return none
	}
	return q.list[q.first].rec
}

// all yields the records, the least recently freed first.
func (q *queue) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, t := range q.list[q.first:] {
			if t.rec != none && !yield(t.rec) {
				return
			}
		}
	}
}

// latest yields the records, the most recently freed first.
func (q *queue) latest() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, t := range slices.Backward(q.list[q.first:]) {
			if t.rec != none && !yield(t.rec) {
				return
			}
		}
	}
}

// push puts a turn at the end. Its Seq is above all others.
func (q *queue) push(t turn) {
	if n := len(q.list); n == cap(q.list) && n-q.live > n/4 {
		q.compact() // instead of more memory
	}
	q.list = append(q.list, t)
	q.live++
}

// search returns where a turn with that Seq is, or would be.
func (q *queue) search(seq uint64) int {
	n, _ := slices.BinarySearchFunc(q.list[q.first:], seq, func(t turn, seq uint64) int { return cmp.Compare(t.seq, seq) })
	return q.first + n
}

// insert puts a turn before that at n, or at the end, where its Seq belongs. It is
// quick at both ends, and where somebody has left, and takes memory only if nobody has.
func (q *queue) insert(n int, t turn) {
	switch {
	case n == len(q.list):
		q.push(t)
		return
	case n > q.first && q.list[n-1].rec == none:
		q.list[n-1] = t
	case q.first > 0:
		q.first--
		copy(q.list[q.first:], q.list[q.first+1:n])
		q.list[n-1] = t
	default:
		q.list = slices.Insert(q.list, n, t)
	}
	q.live++
}

// remove takes out a turn, which is there.
func (q *queue) remove(t turn) {
	if q.live--; q.live == 0 {
		if *q = (queue{list: q.list[:0]}); cap(q.list) > 8*minQueue {
			q.list = nil // there were many once
		}
		return
	}
	if q.list[q.first] == t {
		q.first++
		for q.list[q.first].rec == none {
			q.first++
		}
	} else {
		q.leave(t)
	}
	if len(q.list)-q.first > 2*q.live+minQueue {
		q.compact()
	}
}

// leave is remove for a turn behind the first.
func (q *queue) leave(t turn) {
	n := q.search(t.seq)
	for q.list[n] != t { // of several with this Seq
		n++
	}
	q.list[n].rec = none
	last := len(q.list) - 1
	for q.list[last].rec == none {
		last--
	}
	q.list = q.list[:last+1]
}

// minQueue is how many turns may be over between the first and the last of any queue.
const minQueue = 64

// compact leaves out the turns that are over.
func (q *queue) compact() {
	q.list = append(q.list[:0], q.list[q.first:]...)
	if len(q.list) > q.live {
		q.list = slices.DeleteFunc(q.list, func(t turn) bool { return t.rec == none })
	}
	q.first = 0
	if cap(q.list) > 8*q.live+minQueue {
		q.list = slices.Clone(q.list)
	}
}

// merge puts in turns, which are in order.
func (q *queue) merge(turns []turn, compare func(a, b turn) int) {
	q.compact()
	n := len(q.list)
	q.list = append(q.list, turns...)
	q.live = len(q.list)
	for at := len(q.list) - 1; len(turns) > 0; at-- { // from the end on, so that nothing has to make room
		last := len(turns) - 1
		if n > 0 && compare(q.list[n-1], turns[last]) > 0 {
			n--
			q.list[at] = q.list[n]
			continue
		}
		q.list[at] = turns[last]
		turns = turns[:last]
	}
}
