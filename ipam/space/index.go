package space

import (
	"encoding/binary"
	"math/bits"
)

// bucketLen is the number of records in a bucket, which is as long as a line of
// the processor's cache: to look for a key that nobody has touches that line
// alone, however large the index is.
const bucketLen = 12

// bucket holds records whose keys share some bits, from the front on.
type bucket struct {
	rec  [bucketLen]uint32
	tag  [bucketLen]uint8 // some more bits of their keys
	rest uint32           // more()<<lenBits | len()
}

// lenBits is the number of bits that the length of a bucket takes.
const lenBits = 4

// len returns the number of records in the bucket, those behind it apart.
func (b *bucket) len() int { return int(b.rest % (1 << lenBits)) }

// more returns the number of a bucket of keys.spilled that goes on where this
// one ends, and is full; or 0.
func (b *bucket) more() uint32 { return b.rest >> lenBits }

// push adds a record to a bucket that is not full.
func (b *bucket) push(i uint32, tag uint8) {
	n := b.len()
	b.rec[n], b.tag[n] = i, tag
	b.rest++
}

// places are places in a bucket, a bit for each.
type places uint64

// tagged returns the places at which the tag may be. It looks at all of them at
// once: how many there are is chance, and a loop over them would end where the
// processor does not expect it. Who looks there sees that some have another tag,
// or are behind the end.
func (b *bucket) tagged(tag uint8) places {
	const high = each << 7
	first := binary.LittleEndian.Uint64(b.tag[:]) ^ each*uint64(tag) // 0 where the tag is
	others := uint64(binary.LittleEndian.Uint32(b.tag[8:])) ^ each*uint64(tag)
	first = (first - each) &^ first & high
	others = (others - each) &^ others & (high >> 32)
	return places(first>>7 | others>>6)
}

// next returns the first of the places, of which there must be one.
func (p places) next() int {
	n := bits.TrailingZeros64(uint64(p))
	return n/8 + n%8*8
}

// find returns the place of a record with the tag, or -1.
func (b *bucket) find(i uint32, tag uint8) int {
	for p := b.tagged(tag); p != 0; p &= p - 1 {
		if n := p.next(); n < b.len() && b.rec[n] == i {
			return n
		}
	}
	return -1
}

// tagOf returns the tag of a key: of its bits those that tell no buckets apart.
func tagOf(k Key) uint8 { return uint8(k >> 56) }

const (
	// keyLoad is the mean number of records in a bucket. Those that are not
	// divided yet have up to one and a half times as many, and few are full.
	keyLoad = 7
	// stripLen is the number of buckets in a strip.
	stripBits = 4
	stripLen  = 1 << stripBits
)

// keys is the index of records by their key: a table of buckets that grows by
// one at a time (linear hashing), so that no call ever pays for rehashing it
// all. Strips of it never move. Records without a key are not in it.
type keys struct {
	strips  []*[stripLen]bucket
	buckets int
	count   int
	spilled []bucket // what did not fit into its bucket; the first is not used
	spare   uint32   // first of the list of spilled buckets given back
}

func (x *keys) at(n int) *bucket { return &x.strips[n>>stripBits][n%stripLen] }

// bucket returns the number of the bucket of a key; there must be one. With 2^n to
// 2^(n+1) buckets the low n+1 bits say which, or n bits where that one does not
// exist yet.
func (x *keys) bucket(k Key) int {
	half := floorPow2(x.buckets)
	b := int(k) & (2*half - 1)
	if b >= x.buckets {
		b -= half
	}
	return b
}

// add puts record i with its key into the index. Its cost does not depend on what
// is there.
func (x *keys) add(sl *slab, i uint32, k Key) {
	if k == NoKey {
		return
	}
	x.count++
	if x.count > keyLoad*x.buckets {
		x.grow(sl)
	}
	x.put(i, k)
}

// put puts record i with its key into its bucket. One that is full makes room by
// moving all that it has into a spilled one.
func (x *keys) put(i uint32, k Key) {
	b := x.at(x.bucket(k))
	if b.len() == bucketLen {
		more := x.spill()
		x.spilled[more] = *b
		*b = bucket{rest: more << lenBits}
	}
	b.push(i, tagOf(k))
}

// build makes the index of all records of a slab that has no other but live
// ones, at once: that costs less than to add them one by one, each where
// chance has its key. They have been counted.
func (x *keys) build(sl *slab) {
	*x = keys{count: x.count}
	if x.count == 0 {
		return
	}
	x.buckets = (x.count + keyLoad - 1) / keyLoad
	strips := make([][stripLen]bucket, (x.buckets+stripLen-1)>>stripBits)
	x.strips = make([]*[stripLen]bucket, len(strips))
	for n := range strips {
		x.strips[n] = &strips[n]
	}
	// Buckets are only written to, and what is in them is counted where that is near: to read each would be to wait
	// for it.
	lens := make([]uint8, x.buckets)
	var late []uint32 // those whose bucket is full
	for i := uint32(1); i <= sl.top; i++ {
		k := sl.rec(i).key
		if k == NoKey { // or there is no such record
			continue
		}
		n := x.bucket(k)
		at := lens[n]
		if at >= bucketLen {
			late = append(late, i)
			continue
		}
		b := &strips[n>>stripBits][n%stripLen]
		b.rec[at], b.tag[at] = i, tagOf(k)
		lens[n]++
	}
	for n, l := range lens {
		strips[n>>stripBits][n%stripLen].rest = uint32(l)
	}
	for _, i := range late {
		x.put(i, sl.rec(i).key)
	}
}

// extend adds an empty bucket.
func (x *keys) extend() {
	if x.buckets%stripLen == 0 {
		x.strips = append(x.strips, new([stripLen]bucket))
	}
	x.buckets++
}

// grow adds a bucket and moves into it what belongs there, all of which is in
// one other bucket.
func (x *keys) grow(sl *slab) {
	added := x.buckets
	x.extend()
	if added == 0 {
		return
	}
	from := x.at(added - floorPow2(added))
	old := *from
	*from = bucket{}
	for {
		for _, i := range old.rec[:old.len()] {
			x.put(i, sl.rec(i).key)
		}
		more := old.more()
		if more == 0 {
			return
		}
		old = x.spilled[more]
		x.unspill(more)
	}
}

// remove takes record i with its key out of the index. It passes the records that
// share its bucket, so it is slow only when many addresses have one key.
func (x *keys) remove(i uint32, k Key) {
	if k == NoKey {
		return
	}
	x.count--
	first := x.at(x.bucket(k))
	tag := tagOf(k)
	b := first
	n := b.find(i, tag)
	for n < 0 {
		b = &x.spilled[b.more()]
		n = b.find(i, tag)
	}
	first.rest--
	last := first.len() // fills the gap
	b.rec[n], b.tag[n] = first.rec[last], first.tag[last]
	if more := first.more(); last == 0 && more != 0 {
		*first = x.spilled[more]
		x.unspill(more)
	}
}

// spill returns the number of a spilled bucket that is not in use.
func (x *keys) spill() uint32 {
	if n := x.spare; n != 0 {
		x.spare = x.spilled[n].more()
		return n
	}
	if len(x.spilled) == 0 {
		x.spilled = make([]bucket, 1)
	}
	x.spilled = append(x.spilled, bucket{})
	return uint32(len(x.spilled) - 1)
}

// unspill gives a spilled bucket back.
func (x *keys) unspill(n uint32) {
	x.spilled[n] = bucket{rest: x.spare << lenBits}
	x.spare = n
}

// latest returns, of the records with the key, those with the highest Seq: of
// those that are held, and of those that are queued; or none.
func (s *Space) latest(k Key) (held, queued uint32) {
	x := &s.keys
	if k == NoKey || x.buckets == 0 {
		return none, none
	}
	tag := tagOf(k)
	for b := x.at(x.bucket(k)); ; b = &x.spilled[b.more()] {
		for p := b.tagged(tag); p != 0; p &= p - 1 {
			n := p.next()
			if n >= b.len() {
				continue
			}
			i := b.rec[n]
			switch r := s.slab.rec(i); {
			case r.key != k:
			case r.queued():
				queued = s.later(queued, i)
			case s.page(r).held>>(r.place%pageLen)&1 != 0:
				held = s.later(held, i)
			}
		}
		if b.more() == 0 {
			return held, queued
		}
	}
}

// later returns the record with the higher Seq; the first may be none.
func (s *Space) later(a, b uint32) uint32 {
	if a != none && s.slab.rec(a).seq > s.slab.rec(b).seq {
		return a
	}
	return b
}
