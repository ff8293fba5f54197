package space

import (
	"fmt"
	"math/bits"

	"github.com/ringlet/ringlet/ipam/addr"
)

// Put brings back a record that was written to disk, in any order of records.
// It is an error if o is not in the pool, has a record already, or if the
// record is neither Held nor Freed. Put is for a new space: until
// [Space.Seal], only Put, Own and SetAside may be called.
func (s *Space) Put(o addr.Offset, rec Record) error {
	switch {
	case o >= s.end:
		return fmt.Errorf("space: record of offset %d in a pool of %d", o, s.end)
	case rec.State != Held && rec.State != Freed:
		return fmt.Errorf("space: record of offset %d is %v, neither held nor freed", o, rec.State)
	case s.pages.find(o).state(o) != Unused:
		return fmt.Errorf("space: two records of offset %d", o)
	}
	i := s.create(o)
	r := s.slab.rec(i)
	r.setHolder(&rec.Holder)
	r.seq, r.since = rec.Seq, rec.Since
	s.keys.add(&s.slab, i)
	s.seq = max(s.seq, rec.Seq)
	if rec.State == Held {
		s.page(r).held |= 1 << (o % pageLen)
		s.held++
	} else {
		s.freed++
	}
	if !s.mine.contains(o) {
		s.strays++
	}
	return nil
}

// Seal ends the restoring: it queues the freed addresses in the order in
// which they were freed, and forgets those that are not mine. Held addresses
// that are not mine stay, as strays.
func (s *Space) Seal() {
	var list []uint32
	for p, w := range s.freedIn(s.pool()) {
		for ; w != 0; w &= w - 1 {
			i := p.rec[bits.TrailingZeros64(w)]
			switch o := s.offset(i); {
			case !s.mine.contains(o):
				s.strays--
				s.erase(i)
			case !s.aside.contains(o) && !s.slab.rec(i).queued:
				list = append(list, i)
			}
		}
	}
	s.requeue(list)
}
