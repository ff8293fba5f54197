package space

import (
	"fmt"
	"math/bits"

	"github.com/ringlet/ringlet/ipam/addr"
)

// Own makes the addresses in r mine, what the peer's own decision or another
// peer's gift brought. Some of them, or all, may be mine already. What lies
// beyond the pool is ignored.
func (s *Space) Own(r addr.Range) {
	r = r.Intersect(s.pool())
	for gained := range s.mine.outside(r) {
		s.owned += gained.Size()
		for p := range s.pages.in(gained) {
			s.strays -= bits.OnesCount64(p.used & p.mask(gained))
		}
		for part := range s.aside.outside(gained) {
			s.fresh.add(part)
		}
	}
	s.mine.add(r)
}

// HeldError is returned when a range stopped being mine in which addresses
// are held.
type HeldError struct {
	First addr.Offset // the lowest of them
	Count addr.Count  // how many, at least 1
}

// Error says how many addresses there are, by offset.
func (e *HeldError) Error() string {
	return fmt.Sprintf("space: %d held in a range that is no longer mine, the first at offset %d", e.Count, e.First)
}

// Disown makes the addresses in r no longer mine, and forgets those that were
// freed. Nothing in r should be held: if something is, it stays held as a
// stray, to be freed by its holder as ever, and Disown returns a [HeldError],
// having done its work all the same. Whether r is set aside does not change.
func (s *Space) Disown(r addr.Range) error {
	r = r.Intersect(s.pool())
	var found HeldError
	for lost := range s.mine.within(r) {
		s.owned -= lost.Size()
		for p := range s.pages.in(lost) {
			m := p.mask(lost)
			if n := bits.OnesCount64(p.held & m); n > 0 {
				if found.Count == 0 {
					found.First = p.base + addr.Offset(bits.TrailingZeros64(p.held&m))
				}
				found.Count += addr.Count(n)
				s.strays += n
			}
			for w := p.used &^ p.held & m; w != 0; w &= w - 1 {
				s.erase(p.rec[bits.TrailingZeros64(w)])
			}
		}
	}
	s.mine.remove(r)
	s.fresh.remove(r)
	if found.Count > 0 {
		return &found
	}
	return nil
}

// SetAside lets nothing in r be handed out until [Space.Restore]: a decision
// about r is under way that may give it away. What is mine there stays mine,
// what is held stays held. r need not be mine.
func (s *Space) SetAside(r addr.Range) {
	r = r.Intersect(s.pool())
	for part := range s.aside.outside(r) {
		for p, w := range s.freedIn(part) {
			for ; w != 0; w &= w - 1 {
				n := bits.TrailingZeros64(w)
				s.dequeue(p.rec[n], s.slab.rec(p.rec[n]), p.base+addr.Offset(n))
			}
		}
	}
	s.fresh.remove(r)
	s.aside.add(r)
}

// Restore ends what SetAside began for the addresses in r: those that are
// mine can be handed out again. Freed ones have the place in the queue that
// they would have had all along.
func (s *Space) Restore(r addr.Range) {
	var list []uint32
	for part := range s.aside.within(r) {
		for usable := range s.mine.within(part) {
			s.fresh.add(usable)
			for p, w := range s.freedIn(usable) {
				for ; w != 0; w &= w - 1 {
					list = append(list, p.rec[bits.TrailingZeros64(w)])
				}
			}
		}
	}
	s.requeue(list)
	s.aside.remove(r)
}

// erase forgets record i.
func (s *Space) erase(i uint32) {
	r := s.slab.rec(i)
	p, o := s.page(r), s.offset(i)
	bit := uint64(1) << (o % pageLen)
	if p.held&bit != 0 {
		s.held--
	} else {
		s.freed--
	}
	s.dequeue(i, r, o)
	s.keys.remove(i, r.key)
	s.slab.put(i)
	p.rec[o%pageLen] = none
	p.used &^= bit
	p.held &^= bit
	if p.used == 0 {
		s.pages.drop(p)
	}
}
