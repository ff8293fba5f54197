package space

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
)

// Check verifies the invariants of a sealed space and returns an error that
// names the first one broken. It reads everything; it is for tests, and for a
// look at a peer that is in doubt.
//
//   - S1 mine, aside and fresh are sets inside the pool; fresh lies in what is
//     usable, and every usable address outside of fresh has a record.
//   - S2 Pages and records lead to each other; no page is empty.
//   - S3 An address is freed only if it is mine, and queued just if it is
//     freed and usable.
//   - S4 Each queue is in order of Seq, inside its segment; its first turn and its
//     last are those of records, and not too many between them are over.
//   - S5 Each record with a key is in its bucket, once, under its tag; what is
//     behind a bucket is full.
//   - S6 The counts are right: held, freed, strays, owned, records in use; no
//     Seq is above the highest one given.
func (s *Space) Check() error {
	for _, check := range []func() error{s.checkSets, s.checkRecords, s.checkQueues, s.checkKeys, s.checkSlab} {
		if err := check(); err != nil {
			return fmt.Errorf("space: %w", err)
		}
	}
	return nil
}

func (s *Space) checkSets() error {
	for name, set := range map[string]set{"mine": s.mine, "aside": s.aside, "fresh": s.fresh} {
		for n, r := range set {
			if r.Empty() || r.End > s.end || n > 0 && r.Start <= set[n-1].End {
				return fmt.Errorf("S1: range %v of %s is empty, outside, or not behind the one before", r, name)
			}
		}
	}
	for _, r := range s.fresh {
		for part := range s.mine.outside(r) {
			return fmt.Errorf("S1: %v is fresh and not mine", part)
		}
		for part := range s.aside.within(r) {
			return fmt.Errorf("S1: %v is fresh and set aside", part)
		}
	}
	for part := range s.usable(s.pool()) {
		for r := range s.fresh.outside(part) {
			if o := s.pages.firstUnused(r); o < r.End {
				return fmt.Errorf("S1: %d is usable, has no record, and is not fresh", o)
			}
		}
	}
	if n := s.mine.size(); n != s.owned {
		return fmt.Errorf("S6: %d addresses are mine, counted %d", n, s.owned)
	}
	return nil
}

func (s *Space) checkRecords() error {
	held, freed, strays, found := 0, 0, 0, 0
	for base, self := range s.pages.dir {
		p := s.pages.all[self]
		if p == nil || p.base != base || p.self != self || base%pageLen != 0 || p.used == 0 || p.held&^p.used != 0 {
			return fmt.Errorf("S2: page at %d is not what its place says, or empty", base)
		}
		for slot, i := range p.rec {
			bit, o := uint64(1)<<slot, base+addr.Offset(slot)
			if i == none != (p.used&bit == 0) {
				return fmt.Errorf("S2: use of %d and its record do not agree", o)
			}
			if i == none {
				continue
			}
			r := s.slab.rec(i)
			isHeld, mine := p.held&bit != 0, s.mine.contains(o)
			switch {
			case o >= s.end || s.offset(i) != o:
				return fmt.Errorf("S2: record of %d is that of %d", o, s.offset(i))
			case r.seq > *s.seq:
				return fmt.Errorf("S6: record of %d has Seq %d, the highest given is %d", o, r.seq, *s.seq)
			case !isHeld && !mine:
				return fmt.Errorf("S3: %d is freed and not mine", o)
			case r.queued() != (!isHeld && s.Usable(o)):
				return fmt.Errorf("S3: %d held %v, usable %v, queued %v", o, isHeld, s.Usable(o), r.queued())
			}
			found++
			if isHeld {
				held++
			} else {
				freed++
			}
			if !mine {
				strays++
			}
		}
	}
	if held != s.held || freed != s.freed || strays != s.strays || found != s.slab.live {
		return fmt.Errorf("S6: %d held, %d freed, %d strays of %d records, counted %d, %d, %d of %d",
			held, freed, strays, found, s.held, s.freed, s.strays, s.slab.live)
	}
	if n := len(s.pages.all) - len(s.pages.spare); n != len(s.pages.dir) {
		return fmt.Errorf("S2: %d pages in use, %d in the directory", n, len(s.pages.dir))
	}
	return nil
}

func (s *Space) checkQueues() error {
	if n := len(s.segments); n == 0 || n > maxSegments || s.segments[0].start != 0 {
		return fmt.Errorf("S4: %d segments, or none at the pool's start", n)
	}
	for n, q := range s.segments {
		if n > 0 && (q.start <= s.segments[n-1].start || q.start >= s.end) {
			return fmt.Errorf("S4: segment %d starts at %d", n, q.start)
		}
		if err := s.checkQueue(&q.queue, s.extent(n)); err != nil {
			return fmt.Errorf("S4: the queue of segment %v: %w", s.extent(n), err)
		}
	}
	return nil // that all queued records are in them follows from checkSlab
}

// checkQueue verifies the queue of a segment that reaches so far.
func (s *Space) checkQueue(q *queue, extent addr.Range) error {
	if q.live == 0 {
		if len(q.list) > 0 || q.first > 0 {
			return fmt.Errorf("%d turns, and none of a record", len(q.list))
		}
		return nil
	}
	if q.first >= len(q.list) || q.list[q.first].rec == none || q.list[len(q.list)-1].rec == none {
		return fmt.Errorf("it begins or ends with a turn that is over")
	}
	live, seq, prev := 0, uint64(0), turn{}
	for _, t := range q.list[q.first:] {
		if t.seq < seq {
			return fmt.Errorf("a turn with Seq %d is behind one with %d", t.seq, seq)
		}
		seq = t.seq
		if t.rec == none {
			continue
		}
		live++
		switch r := s.slab.rec(t.rec); {
		case !extent.Contains(s.offset(t.rec)):
			return fmt.Errorf("%d is in it", s.offset(t.rec))
		case !r.queued() || r.seq != t.seq:
			return fmt.Errorf("%d is in it with Seq %d, has %d, and is queued %v", s.offset(t.rec), t.seq, r.seq, r.queued())
		case prev.rec != none && s.compareTurns(prev, t) >= 0:
			return fmt.Errorf("%d is behind %d", s.offset(t.rec), s.offset(prev.rec))
		}
		prev = t
	}
	if n := len(q.list) - q.first; live != q.live || n > 2*live+minQueue {
		return fmt.Errorf("it has %d records in %d turns, counted %d", live, n, q.live)
	}
	return nil
}

func (s *Space) checkKeys() error {
	x := &s.keys
	found, spilled := 0, 0
	for at := range x.buckets {
		for b := x.at(at); ; b = &x.spilled[b.more()] {
			n := b.len()
			if n > bucketLen || slices.Contains(b.rec[:n], none) {
				return fmt.Errorf("S5: bucket %d has a gap, or too many records", at)
			}
			for slot, i := range b.rec[:n] {
				if k := s.slab.rec(i).key; k == NoKey || x.bucket(k) != at || tagOf(k) != b.tag[slot] {
					return fmt.Errorf("S5: record of %d with key %x is in bucket %d with tag %x", s.offset(i), k, at, b.tag[slot])
				}
			}
			if found += n; found > x.count {
				return fmt.Errorf("S5: more than %d records with keys", x.count)
			}
			if b != x.at(at) {
				spilled++
			}
			if (b != x.at(at) && n != bucketLen) || (n == 0 && b.more() != 0) || spilled >= max(len(x.spilled), 1) {
				return fmt.Errorf("S5: bucket %d has spilled too early, or is in a circle", at)
			}
			if b.more() == 0 {
				break
			}
		}
	}
	for n := x.spare; n != 0; n = x.spilled[n].more() {
		if spilled++; spilled >= len(x.spilled) {
			return fmt.Errorf("S5: the list of spare buckets has no end")
		}
	}
	if spilled != max(len(x.spilled), 1)-1 {
		return fmt.Errorf("S5: %d spilled or spare buckets of %d", spilled, len(x.spilled)-1)
	}
	if found != s.keys.count {
		return fmt.Errorf("S5: %d records with keys, counted %d", found, s.keys.count)
	}
	return nil
}

func (s *Space) checkSlab() error {
	spare := 0
	for i := s.slab.spare; i != none; i = s.slab.rec(i).place {
		if spare++; spare > int(s.slab.top) {
			return fmt.Errorf("S6: the list of spare records has no end")
		}
	}
	if spare+s.slab.live != int(s.slab.top) {
		return fmt.Errorf("S6: %d spare and %d live records of %d", spare, s.slab.live, s.slab.top)
	}
	inQueues, queued, keyed := 0, 0, 0
	for _, q := range s.segments {
		inQueues += q.live
	}
	for p := range s.pages.in(s.pool()) {
		for w := p.used; w != 0; w &= w - 1 {
			i := p.rec[bits.TrailingZeros64(w)]
			if s.slab.rec(i).queued() {
				queued++
			}
			if s.slab.rec(i).key != NoKey {
				keyed++
			}
		}
	}
	if inQueues != queued || keyed != s.keys.count {
		return fmt.Errorf("S4: %d records in queues, %d say so; S5: %d keyed, %d in the index", inQueues, queued, keyed, s.keys.count)
	}
	return nil
}
