package space

import "math/bits"

// none is the index of no record.
const none uint32 = 0

// record is a [Record] as it lies in the slab, ordered so that it has no
// padding, 48 bytes, and without pointers, so that no garbage collection reads
// it. Whether it is held stands in its page, and who holds it beside it.
type record struct {
	since      int64
	seq        uint64
	key        Key
	prev, next uint32 // neighbours in its queue, if queued; next in the list of spare records
	network    uint32
	place      uint32 // page index << pageBits | slot: which address it is of
	mac        [6]byte
	form       form
}

// queued reports whether the record is freed, usable, and in the queue of its
// segment.
func (r *record) queued() bool { return r.form&isQueued != 0 }

// blockLen is the number of records in a block. Records and texts of a
// block lie apart: each fills a size class of Go's allocator, or nearly so.
const (
	blockBits = 5
	blockLen  = 1 << blockBits
)

// block is a piece of the slab.
type block struct {
	rec  *[blockLen]record
	text *[blockLen]string
}

// slab holds records by index, from 1 on. Blocks never move.
type slab struct {
	blocks []block
	spare  uint32 // first of the list of records given back
	top    uint32 // highest index ever in use
	live   int    // records in use
}

func (sl *slab) rec(i uint32) *record { return &sl.blocks[i>>blockBits].rec[i%blockLen] }
func (sl *slab) text(i uint32) *string {
	return &sl.blocks[i>>blockBits].text[i%blockLen]
}

// setHolder writes to the record who it is of, whose name and reference lie beside it in
// the form of [textOf].
func (r *record) setHolder(h *Holder, f form) {
	r.form = r.form&isQueued | f | formOf(h.Kind)
	r.key, r.network, r.mac = h.Key, h.Network, h.MAC
}

// export writes record i as callers see it to rec.
func (sl *slab) export(i uint32, rec *Record, st State) { sl.rec(i).export(*sl.text(i), rec, st) }

func (r *record) export(text string, rec *Record, st State) {
	rec.Name, rec.Ref = r.form.split(text)
	rec.Key, rec.Network, rec.MAC, rec.Kind = r.key, r.network, r.mac, r.form.kind()
	rec.Since, rec.Seq, rec.State = r.since, r.seq, st
}

// bringBack writes to record i what was known of its address before.
func (sl *slab) bringBack(i uint32, b *Past) {
	r := sl.rec(i)
	place := r.place
	*r, *sl.text(i) = b.rec, b.text
	r.place = place
}

// full reports whether the next record that was never in use needs another block.
func (sl *slab) full() bool { return int((sl.top+1)>>blockBits) == len(sl.blocks) }

// get returns the index of a zero record.
func (sl *slab) get() uint32 {
	sl.live++
	if i := sl.spare; i != none {
		r := sl.rec(i)
		sl.spare, r.next = r.next, none
		return i
	}
	full := sl.full()
	sl.top++
	if full {
		sl.blocks = append(sl.blocks, block{new([blockLen]record), new([blockLen]string)})
	}
	return sl.top
}

// put gives record i back.
func (sl *slab) put(i uint32) {
	sl.live--
	*sl.rec(i), *sl.text(i) = record{next: sl.spare}, ""
	sl.spare = i
}

// floorPow2 returns the largest power of two that is at most n, n > 0.
func floorPow2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }
