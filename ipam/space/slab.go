package space

import "math/bits"

// none is the index of no record.
const none uint32 = 0

// record is a [Record] as it lies in the slab, in 56 bytes. Whether it is held stands
// in its page.
type record struct {
	text    string // name and reference, as form says
	since   int64
	seq     uint64
	key     Key
	network uint32
	place   uint32 // page index << pageBits | slot: which address it is of; or the next spare record
	mac     [6]byte
	form    form
}

// queued reports whether the record is freed, usable, and in the queue of its
// segment.
func (r *record) queued() bool { return r.form&isQueued != 0 }

// The first records of a slab lie in short blocks, for most spaces have few, and all
// others in long ones: the pointers to those of a million records take 8 KB. Go's
// allocator has both without loss: 448 bytes are a size class, and up to 512 it puts no
// header in front of what has pointers; 56 KB are more than any size class, so they get
// pages.
const (
	shortBits = 3
	shortLen  = 1 << shortBits // records of a short block, 448 bytes
	longBits  = 10
	longLen   = 1 << longBits // records of a long block, 56 KB, and of all short ones together
)

type (
	shortBlock [shortLen]record
	longBlock  [longLen]record
)

// slab holds records by index, from 1 on. Blocks never move.
type slab struct {
	short []*shortBlock
	long  []*longBlock
	spare uint32 // first of the list of records given back
	top   uint32 // highest index ever in use
	live  int    // records in use
}

func (sl *slab) rec(i uint32) *record {
	if n := i >> longBits; n > 0 {
		return &sl.long[n-1][i%longLen]
	}
	return &sl.short[i>>shortBits][i%shortLen]
}

// setHolder writes to the record who it is of, whose name and reference come as [textOf]
// has them.
func (r *record) setHolder(h *Holder, text string, f form) {
	r.text = text
	r.form = r.form&isQueued | f | formOf(h.Kind)
	r.key, r.network, r.mac = h.Key, h.Network, h.MAC
}

// export writes record i as callers see it to rec.
func (sl *slab) export(i uint32, rec *Record, st State) { sl.rec(i).export(rec, st) }

func (r *record) export(rec *Record, st State) {
	rec.Name, rec.Ref = r.form.split(r.text)
	rec.Key, rec.Network, rec.MAC, rec.Kind = r.key, r.network, r.mac, r.form.kind()
	rec.Since, rec.Seq, rec.State = r.since, r.seq, st
}

// bringBack writes to record i what was known of its address before.
func (sl *slab) bringBack(i uint32, b *Past) {
	r := sl.rec(i)
	place := r.place
	*r = b.rec
	r.place = place
}

// full reports whether the next record that was never in use needs another block, and
// whether that is a long one.
func (sl *slab) full() (full, long bool) {
	i := sl.top + 1
	if i < longLen {
		return int(i>>shortBits) == len(sl.short), false
	}
	return int(i>>longBits) > len(sl.long), true
}

// get returns the index of a zero record.
func (sl *slab) get() uint32 {
	sl.live++
	if i := sl.spare; i != none {
		r := sl.rec(i)
		sl.spare, r.place = r.place, none
		return i
	}
	switch full, long := sl.full(); {
	case full && long:
		sl.long = append(sl.long, new(longBlock))
	case full:
		sl.short = append(sl.short, new(shortBlock))
	}
	sl.top++
	return sl.top
}

// put gives record i back.
func (sl *slab) put(i uint32) {
	sl.live--
	*sl.rec(i) = record{place: sl.spare}
	sl.spare = i
}

// floorPow2 returns the largest power of two that is at most n, n > 0.
func floorPow2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }
