package space

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// Grant is an address that was handed out. What its record says of the holder is what
// whoever asked for it said.
type Grant struct {
	Offset  addr.Offset
	Seq     uint64 // of its record
	Since   int64  // of its record
	Pressed bool   // taken although it had not rested, for want of another
}

// Past is what was known of an address before it was handed out: of one that was
// freed before, or the zero Past. [Space.Withdraw] brings it back; to say it as a
// Record would cost a copy of its strings that hardly anybody asks for.
type Past struct {
	rec   record // in no queue
	freed bool
}

// Freeing is the end of a holding.
type Freeing struct {
	Record          // as it is now: Freed; or Unused, of a stray, which is forgotten, with who had it
	HeldSince int64 // Since as it was
}

// nearBuckets is the number of buckets of an index, 256 KB, that a processor has in a
// near cache, or as good as that.
const nearBuckets = 1 << 12

// Ahead asks the memory for what a Take in want for a holder with the key is about to
// read where much is held: the line of this key, and that of the key of the address
// which comes next. The processor waits for both at once then, and not for one after
// the other. It changes nothing, and guesses: where want has several segments another
// address may come next.
func (s *Space) Ahead(want addr.Range, k Key) {
	if s.keys.buckets > nearBuckets {
		s.ahead(want, k)
	}
}

func (s *Space) ahead(want addr.Range, k Key) {
	x := &s.keys
	longest := x.at(x.bucket(k)).len()
	if i := s.segments[s.segment(want.Start)].head(); i != none {
		longest = max(longest, x.at(x.bucket(s.slab.rec(i).key)).len())
	}
	if longest > bucketLen { // or the compiler would leave out what is read for nothing
		panic("space: a bucket has more records than it has room for")
	}
}

// Take hands out an address in want to h, and reports false if every usable
// address there is held. It fills in before, unless that is nil: copies of it would
// cost more than all the rest. It prefers, in this order,
//
//   - if more than 65,536 freed addresses are remembered, the least recently
//     freed one in want, provided it has rested for all of rest: so a pool
//     that is never full does not remember ever more;
//   - the lowest one that was never used;
//   - the least recently freed one, even if it rests still.
func (s *Space) Take(want addr.Range, h *Holder, now time.Time, rest time.Duration, before *Past) (g Grant, ok bool) {
	want = want.Intersect(s.pool())
	if want.Empty() {
		return g, false
	}
	nanos := now.UnixNano()
	if s.freed <= s.remember {
		if o, ok := s.unused(want); ok {
			return s.hold(o, none, h, nanos, before), true
		}
	}
	i := s.oldest(want)
	ripe := i != none && rested(s.slab.rec(i).since, nanos, rest)
	if !ripe && s.freed > s.remember {
		if o, ok := s.unused(want); ok {
			return s.hold(o, none, h, nanos, before), true
		}
	}
	if i == none {
		return g, false
	}
	g = s.hold(s.offset(i), i, h, nanos, before)
	g.Pressed = !ripe
	return g, true
}

// Outcome is the answer to a [Space.Claim].
type Outcome uint8

// The outcomes of a claim. Only the first one changes anything.
const (
	Taken    Outcome = 1 // it is held now
	InUse    Outcome = 2 // it was held already; Lookup says by whom
	NotMine  Outcome = 3 // it is not mine
	SetAside Outcome = 4 // it is mine and set aside: try again later
)

// String returns the outcome in words.
func (c Outcome) String() string {
	switch c {
	case Taken:
		return "taken"
	case InUse:
		return "in use"
	case NotMine:
		return "not mine"
	case SetAside:
		return "set aside"
	}
	return fmt.Sprintf("outcome %d", uint8(c))
}

// Claim hands out just the address o to h. A resting address can be claimed:
// whoever names an address wants that one. If the outcome is Taken, it fills in
// before as [Space.Take] does.
func (s *Space) Claim(o addr.Offset, h *Holder, now time.Time, before *Past) (g Grant, out Outcome) {
	p := s.pages.find(o)
	i := none
	switch st := p.state(o); {
	case st == Held:
		return g, InUse
	case !s.mine.contains(o):
		return g, NotMine
	case s.aside.contains(o):
		return g, SetAside
	case st == Freed:
		i = p.rec[o%pageLen]
	}
	return s.hold(o, i, h, now.UnixNano(), before), Taken
}

// Free ends the holding of o, which goes to the end of the queue, and reports
// whether anything changed: freeing what is not held is no error and has no
// effect. A stray, held but not mine, is forgotten. It fills in what was freed,
// which is to be zero, if there is anything.
func (s *Space) Free(o addr.Offset, now time.Time, f *Freeing) bool {
	p := s.pages.find(o)
	if p.state(o) != Held {
		return false
	}
	i := p.rec[o%pageLen]
	r := s.slab.rec(i)
	r.export(&f.Record, Held)
	f.HeldSince = r.since
	if !s.mine.contains(o) {
		s.strays--
		s.erase(i)
		f.State = Unused
		return true
	}
	*s.seq++
	r.seq, r.since = *s.seq, now.UnixNano()
	s.release(p, o)
	if !s.aside.contains(o) {
		s.enqueue(i, r, o)
	}
	f.State, f.Seq, f.Since = Freed, r.seq, r.since
	return true
}

// Withdraw takes back the grant of o with that Seq, which never reached whom it was
// for, and leaves the address as it was before: freed, with the holder, time and place in the
// queue that it had, or never used. It returns the record as it is now, and
// whether anything changed: nothing does if the grant does not stand any more,
// because the address was freed since.
func (s *Space) Withdraw(o addr.Offset, seq uint64, before *Past) (rec Record, changed bool) {
	p := s.pages.find(o)
	if p.state(o) != Held || s.slab.rec(p.rec[o%pageLen]).seq != seq {
		return s.record(p, o), false
	}
	i := p.rec[o%pageLen]
	switch mine := s.mine.contains(o); {
	case mine && before.freed:
		s.keys.remove(i, s.slab.rec(i).key)
		s.slab.bringBack(i, before)
		s.keys.add(&s.slab, i, before.rec.key)
		s.release(p, o)
		if !s.aside.contains(o) {
			s.putBack(i, s.slab.rec(i), o)
		}
		return s.record(p, o), true
	case mine:
		s.erase(i)
		if !s.aside.contains(o) {
			s.fresh.add(addr.One(o))
		}
	default:
		s.strays--
		s.erase(i)
	}
	return rec, true
}

// Describe says better who holds o: its container's name or ID became known,
// or its network. When and in which order it was taken stays. It returns the
// record as it is now, and false, changing nothing, if o is not held.
func (s *Space) Describe(o addr.Offset, h Holder) (rec Record, changed bool) {
	p := s.pages.find(o)
	if p.state(o) != Held {
		return s.record(p, o), false
	}
	i := p.rec[o%pageLen]
	s.describe(i, s.slab.rec(i), &h)
	return s.record(p, o), true
}

// Renew confirms the holding of o to its holder, who asks for it again: it is
// as Describe, and a grant of o that was made before cannot be withdrawn any
// more. When it was taken stays.
func (s *Space) Renew(o addr.Offset, h Holder) (rec Record, changed bool) {
	if _, held := s.Describe(o, h); !held {
		return s.Lookup(o), false
	}
	p := s.pages.find(o)
	*s.seq++
	s.slab.rec(p.rec[o%pageLen]).seq = *s.seq
	return s.record(p, o), true
}

// unused returns the lowest address in want, a range inside the pool, that is
// usable and never used. It passes the used ones before it for good.
func (s *Space) unused(want addr.Range) (addr.Offset, bool) {
	for n := s.fresh.search(want.Start); n < len(s.fresh) && s.fresh[n].Start < want.End; {
		part := s.fresh[n].Intersect(want)
		o := s.pages.firstUnused(part)
		switch past := (addr.Range{Start: part.Start, End: o}); {
		case past.Empty():
		case past.Start == s.fresh[n].Start && past.End < s.fresh[n].End:
			s.fresh[n].Start = past.End
		default:
			s.fresh.remove(past)
		}
		if o < part.End {
			return o, true
		}
		n = s.fresh.search(part.End)
	}
	return 0, false
}

// hold hands out o, usable and not held, whose record is i, or none, and fills
// in what was known of it before.
func (s *Space) hold(o addr.Offset, i uint32, h *Holder, now int64, before *Past) Grant {
	var r *record
	if i == none {
		if before != nil {
			before.freed = false // whatever it was
		}
		i = s.create(o)
		r = s.slab.rec(i)
		s.setHolder(r, h)
		s.keys.add(&s.slab, i, h.Key)
	} else {
		r = s.slab.rec(i)
		s.dequeue(i, r, o)
		if before != nil {
			before.rec, before.freed = *r, true
		}
		s.describe(i, r, h)
		s.freed--
	}
	*s.seq++
	r.seq, r.since = *s.seq, now
	p := s.page(r)
	p.held |= 1 << (o % pageLen)
	s.pages.last = p
	s.held++
	return Grant{Offset: o, Seq: *s.seq, Since: now}
}

// release lets o, held on page p, be freed. It is in no queue yet.
func (s *Space) release(p *page, o addr.Offset) {
	p.held &^= 1 << (o % pageLen)
	s.held--
	s.freed++
}

// create makes a record for o, which has none. The record is neither held nor
// freed, and in no index.
func (s *Space) create(o addr.Offset) uint32 {
	p := s.pages.add(o)
	i := s.slab.get()
	p.used |= 1 << (o % pageLen)
	p.rec[o%pageLen] = i
	s.slab.rec(i).place = p.self<<pageBits | uint32(o%pageLen)
	return i
}

// describe gives r, which is record i, another holder.
func (s *Space) describe(i uint32, r *record, h *Holder) {
	k := r.key
	if k == h.Key {
		s.setHolder(r, h)
		return
	}
	s.keys.remove(i, k)
	s.setHolder(r, h)
	s.keys.add(&s.slab, i, h.Key)
}

func (s *Space) setHolder(r *record, h *Holder) {
	text, f := textOf(h.Name, h.Ref)
	r.setHolder(h, text, f)
}
