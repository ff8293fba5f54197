package space

import (
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// rememberMax is the number of freed addresses that are remembered before
// they are used again although others were never used. It bounds what a pool
// costs, some 6 MB, however large the pool is and however long it lives.
const rememberMax = 65_536

// Space is what one peer may use, holds and has rested of one pool. It is made
// by [New], must not be copied, and is not safe for concurrent use.
type Space struct { // what each call reads comes first, in few lines of the cache
	end      addr.Offset // size of the pool
	remember int         // rememberMax, but in tests
	seq      *uint64     // highest Seq given or seen, of all spaces that count together
	alone    uint64      // that, of a space that counts by itself

	owned  addr.Count // size of mine
	held   int        // records held
	freed  int        // records freed
	strays int        // records outside of mine

	mine     set
	aside    set
	fresh    set // in mine and not in aside; holds all of that which is never used
	segments []segment
	first    struct { // where those lie as long as there is one of each
		mine, fresh [1]addr.Range
		segments    [1]segment
	}

	slab  slab
	keys  keys
	pages pages
}

// New returns the space of a pool with size addresses, of which nothing is
// mine.
func New(size addr.Count) *Space {
	s := NewCounting(size, nil)
	s.seq = &s.alone
	return s
}

// NewCounting is New for a space whose Seqs come from a counter that it shares
// with others.
func NewCounting(size addr.Count, seq *uint64) *Space {
	s := &Space{end: addr.Offset(size), remember: rememberMax, seq: seq}
	s.mine, s.fresh, s.segments = s.first.mine[:0], s.first.fresh[:0], s.first.segments[:]
	return s
}

// Size returns the number of addresses in the pool.
func (s *Space) Size() addr.Count { return addr.Count(s.end) }

// Owned returns the number of addresses that are mine.
func (s *Space) Owned() addr.Count { return s.owned }

// Held returns the number of addresses held, also of those that are no longer
// mine.
func (s *Space) Held() addr.Count { return addr.Count(s.held) }

// Freed returns the number of free addresses that were held before, rested or
// not.
func (s *Space) Freed() addr.Count { return addr.Count(s.freed) }

// Unused returns the number of addresses that are mine and have no record.
func (s *Space) Unused() addr.Count { return s.owned - addr.Count(s.held+s.freed-s.strays) }

// Strays returns the number of held addresses that are not mine: what
// [Space.Disown] left behind, and what was found on disk so. Each is a
// conflict that somebody should hear of.
func (s *Space) Strays() addr.Count { return addr.Count(s.strays) }

// Spare returns the number of addresses that are mine and not held.
func (s *Space) Spare() addr.Count { return s.owned - addr.Count(s.held-s.strays) }

// Seq returns the highest Seq of all records given so far.
func (s *Space) Seq() uint64 { return *s.seq }

// Mine reports whether o is mine.
func (s *Space) Mine(o addr.Offset) bool { return s.mine.contains(o) }

// Usable reports whether o may be handed out when nobody holds it: it is mine
// and not set aside.
func (s *Space) Usable(o addr.Offset) bool { return s.mine.contains(o) && !s.aside.contains(o) }

// Ranges yields the ranges that are mine, in order, as long as can be.
func (s *Space) Ranges() iter.Seq[addr.Range] { return slices.Values(s.mine) }

// Aside yields the ranges that are set aside, in order, as long as can be.
func (s *Space) Aside() iter.Seq[addr.Range] { return slices.Values(s.aside) }

// Lookup returns the record of o, the zero Record if there is none.
func (s *Space) Lookup(o addr.Offset) Record { return s.record(s.pages.find(o), o) }

// Holds reports whether o is held, and by what kind of holder. It is
// [Space.Lookup] for those who need not know more.
func (s *Space) Holds(o addr.Offset) (Kind, bool) {
	p := s.pages.find(o)
	if p.state(o) != Held {
		return 0, false
	}
	return s.slab.rec(p.rec[o%pageLen]).form.kind(), true
}

// record returns the record of o, an address of page p, which may be nil.
func (s *Space) record(p *page, o addr.Offset) (rec Record) {
	if st := p.state(o); st != Unused {
		s.slab.export(p.rec[o%pageLen], &rec, st)
	}
	return rec
}

// Records yields all addresses in r of which there is a record, in order. The
// space must not be changed meanwhile.
func (s *Space) Records(r addr.Range) iter.Seq2[addr.Offset, Record] {
	return s.where(r, func(p *page) uint64 { return p.used })
}

// HeldIn yields all held addresses in r, in order. The space must not be
// changed meanwhile.
func (s *Space) HeldIn(r addr.Range) iter.Seq2[addr.Offset, Record] {
	return s.where(r, func(p *page) uint64 { return p.held })
}

// Kinds yields all held addresses, in order, each with the kind of its holder. It
// does not read more of who holds them, so it takes little also where very much
// is held. What it has yielded may be freed meanwhile.
func (s *Space) Kinds() iter.Seq2[addr.Offset, Kind] {
	return func(yield func(addr.Offset, Kind) bool) {
		for p := range s.pages.in(s.pool()) {
			for w := p.held; w != 0; w &= w - 1 {
				n := bits.TrailingZeros64(w)
				if !yield(p.base+addr.Offset(n), s.slab.rec(p.rec[n]).form.kind()) {
					return
				}
			}
		}
	}
}

func (s *Space) where(r addr.Range, which func(*page) uint64) iter.Seq2[addr.Offset, Record] {
	return func(yield func(addr.Offset, Record) bool) {
		for p := range s.pages.in(r) {
			for w := which(p) & p.mask(r); w != 0; w &= w - 1 {
				o := p.base + addr.Offset(bits.TrailingZeros64(w))
				if !yield(o, s.record(p, o)) {
					return
				}
			}
		}
	}
}

// Queue yields the freed addresses, the least recently freed first. The space
// must not be changed meanwhile.
func (s *Space) Queue() iter.Seq2[addr.Offset, Record] {
	return func(yield func(addr.Offset, Record) bool) {
		list := make([]uint32, 0, s.freed)
		for p, w := range s.freedIn(s.pool()) {
			for ; w != 0; w &= w - 1 {
				list = append(list, p.rec[bits.TrailingZeros64(w)])
			}
		}
		slices.SortFunc(list, s.compareSeq)
		for _, i := range list {
			var rec Record
			s.slab.export(i, &rec, Freed)
			if !yield(s.offset(i), rec) {
				return
			}
		}
	}
}

// Trace is what a key leads to. Of several addresses it is the one whose state
// began last.
type Trace struct {
	Held     addr.Offset // an address that a holder with the key has
	Former   addr.Offset // one that the last holder with the key had: usable, and not held
	IsHeld   bool        // there is the one
	IsFormer bool        // there is the other
}

// Find returns what the key leads to: where its holder is, and where it comes back
// to.
func (s *Space) Find(k Key) Trace {
	held, queued := s.latest(k)
	return Trace{s.offset(held), s.offset(queued), held != none, queued != none}
}

// HeldBy returns an address whose holder has the key; if there are several,
// the one taken most recently.
func (s *Space) HeldBy(k Key) (addr.Offset, bool) {
	t := s.Find(k)
	return t.Held, t.IsHeld
}

// Resting returns the number of addresses that were freed less than rest ago.
// It counts back from the last one freed, so a clock that was set back
// may hide some.
func (s *Space) Resting(now time.Time, rest time.Duration) addr.Count {
	var n addr.Count
	nanos := now.UnixNano()
	for _, q := range s.segments {
		for i := range q.latest() {
			if rested(s.slab.rec(i).since, nanos, rest) {
				break
			}
			n++
		}
	}
	for _, r := range s.aside { // what is set aside is in no queue
		for p, w := range s.freedIn(r) {
			n += addr.Count(bits.OnesCount64(s.resting(p, w, nanos, rest)))
		}
	}
	return n
}

// pool returns the range of all addresses.
func (s *Space) pool() addr.Range { return addr.Range{End: s.end} }

// offset returns the address of record i, 0 for none.
func (s *Space) offset(i uint32) addr.Offset {
	if i == none {
		return 0
	}
	r := s.slab.rec(i)
	return s.page(r).base + addr.Offset(r.place%pageLen)
}

// page returns the page of a record.
func (s *Space) page(r *record) *page { return s.pages.all[r.place>>pageBits] }

// freedIn yields each page with the bits of the freed addresses that it has
// in r, where there are any.
func (s *Space) freedIn(r addr.Range) iter.Seq2[*page, uint64] {
	return func(yield func(*page, uint64) bool) {
		for p := range s.pages.in(r) {
			if w := p.used &^ p.held & p.mask(r); w != 0 && !yield(p, w) {
				return
			}
		}
	}
}

// resting returns those bits of w, which stand for freed addresses of page p,
// whose addresses rest.
func (s *Space) resting(p *page, w uint64, now int64, rest time.Duration) uint64 {
	for left := w; left != 0; left &= left - 1 {
		slot := bits.TrailingZeros64(left)
		if rested(s.slab.rec(p.rec[slot]).since, now, rest) {
			w &^= 1 << slot
		}
	}
	return w
}
