package space

// Key is what an address sticks to: a hash of whatever makes its holder the
// same one when it comes back, like a container's name. An address that was
// freed is found again by the key of its last holder.
//
// Keys are compared as they are, what they were made of is not kept. Two
// different holders have the same key once in 2^64: the one then gets an
// address that the other had and gave up, which does no harm. But whoever
// concludes from a key that an address is held already by the same holder
// should look at the record.
type Key uint64

// NoKey is the key of a holder that nothing sticks to.
const NoKey Key = 0

// KeyOf returns the key made of the parts, in order, which is never [NoKey].
// Keys are written to disk, so the function is frozen by a test: FNV-1a over
// the parts, each ended by a byte that no UTF-8 text contains, then the
// finalizer of MurmurHash3, because the index uses the low bits.
func KeyOf(parts ...string) Key {
	const prime = 1<<40 + 0x1b3
	h := uint64(0xcbf29ce484222325)
	for _, part := range parts {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * prime
		}
		h = (h ^ 0xff) * prime
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return Key(max(h, 1))
}

// keyLoad is the mean number of records in a bucket of the index. Few of them
// are looked at beyond their link.
const keyLoad = 3

// keys is the index of records by their key: a table of chains that grows by
// one bucket at a time (linear hashing), so that no call ever pays for
// rehashing it all. The chains run through the slab. Records without a key
// are not in it.
type keys struct {
	heads []uint32
	count int
}

// bucket returns the bucket of a key, by its low half; there must be one. With
// 2^n to 2^(n+1) buckets the low n+1 bits say which, or n bits where that one
// does not exist yet.
func (x *keys) bucket(low uint32) int {
	half := floorPow2(len(x.heads))
	b := int(low) & (2*half - 1)
	if b >= len(x.heads) {
		b -= half
	}
	return b
}

// add puts record i into the index. Its cost does not depend on what is there.
func (x *keys) add(sl *slab, i uint32) {
	l := sl.link(i)
	if l.low == 0 && sl.key(i) == NoKey {
		return
	}
	x.count++
	if x.count > keyLoad*len(x.heads) {
		x.grow(sl)
	}
	head := &x.heads[x.bucket(l.low)]
	l.next, *head = *head, i
}

// build makes the index of all records of a slab that has no other but live
// ones, at once: that costs less than to add them one by one, each where
// chance has its key.
func (x *keys) build(sl *slab) {
	x.count = 0
	for i := uint32(1); i <= sl.top; i++ {
		if sl.key(i) != NoKey {
			x.count++
		}
	}
	x.heads = make([]uint32, (x.count+keyLoad-1)/keyLoad)
	for i := uint32(1); i <= sl.top; i++ {
		if sl.key(i) != NoKey {
			l := sl.link(i)
			head := &x.heads[x.bucket(l.low)]
			l.next, *head = *head, i
		}
	}
}

// grow adds a bucket and moves into it what belongs there, all of which is in
// one other bucket.
func (x *keys) grow(sl *slab) {
	x.heads = append(x.heads, none)
	added := len(x.heads) - 1
	if added == 0 {
		return
	}
	from := &x.heads[added-floorPow2(added)]
	for *from != none {
		i := *from
		if l := sl.link(i); x.bucket(l.low) == added {
			*from, l.next, x.heads[added] = l.next, x.heads[added], i
		} else {
			from = &l.next
		}
	}
}

// remove takes record i out of the index. It passes the records that share
// its bucket, so it is slow only when many addresses have one key.
func (x *keys) remove(sl *slab, i uint32) {
	l := sl.link(i)
	if l.low == 0 && sl.key(i) == NoKey {
		return
	}
	x.count--
	at := &x.heads[x.bucket(l.low)]
	for *at != i {
		at = &sl.link(*at).next
	}
	*at = l.next
}

// latest returns, of the records with the key that are wanted, the one with
// the highest Seq, or none.
func (x *keys) latest(sl *slab, k Key, wanted func(*record) bool) uint32 {
	if k == NoKey || len(x.heads) == 0 {
		return none
	}
	best, seq := none, uint64(0)
	for i := x.heads[x.bucket(uint32(k))]; i != none; {
		l := sl.link(i)
		if l.low == uint32(k) {
			if r := sl.rec(i); r.high == uint32(k>>32) && r.seq >= seq && wanted(r) {
				best, seq = i, r.seq
			}
		}
		i = l.next
	}
	return best
}
