package space

import "math/bits"

// none is the index of no record.
const none uint32 = 0

// record is a [Record] as it lies in the slab, ordered so that it has no
// padding: 80 bytes. Whether it is held stands in its page.
type record struct {
	name, ref  string
	key        Key
	since      int64
	seq        uint64
	prev, next uint32 // neighbours in its queue, if queued; next in the list of spare records
	network    uint32
	place      uint32 // page index << pageBits | slot: which address it is of
	mac        [6]byte
	kind       Kind
	queued     bool // freed, usable, and in the queue of its segment
}

func (r *record) setHolder(h *Holder) {
	r.name, r.ref, r.key = h.Name, h.Ref, h.Key
	r.network, r.mac, r.kind = h.Network, h.MAC, h.Kind
}

// export writes the record as callers see it to rec.
func (r *record) export(rec *Record, st State) {
	rec.Name, rec.Ref, rec.Key = r.name, r.ref, r.key
	rec.Network, rec.MAC, rec.Kind = r.network, r.mac, r.kind
	rec.Since, rec.Seq, rec.State = r.since, r.seq, st
}

// blockLen is the number of records in a block. With the 8 bytes that the
// allocator puts before it, a block of 128 nearly fills a size class (10,880
// bytes); one of 64 would waste an eighth.
const (
	blockBits = 7
	blockLen  = 1 << blockBits
)

// block is a piece of the slab. The chains of the key index stand beside the
// records, for which 84 bytes would mean 88.
type block struct {
	rec   [blockLen]record
	chain [blockLen]uint32
}

// slab holds records by index, from 1 on. Blocks never move.
type slab struct {
	blocks []*block
	spare  uint32 // first of the list of records given back
	top    uint32 // highest index ever in use
	live   int    // records in use
}

func (sl *slab) rec(i uint32) *record   { return &sl.blocks[i>>blockBits].rec[i%blockLen] }
func (sl *slab) chain(i uint32) *uint32 { return &sl.blocks[i>>blockBits].chain[i%blockLen] }

// get returns the index of a zero record.
func (sl *slab) get() uint32 {
	sl.live++
	if i := sl.spare; i != none {
		r := sl.rec(i)
		sl.spare, r.next = r.next, none
		return i
	}
	sl.top++
	if int(sl.top>>blockBits) == len(sl.blocks) {
		sl.blocks = append(sl.blocks, new(block))
	}
	return sl.top
}

// put gives record i back.
func (sl *slab) put(i uint32) {
	sl.live--
	*sl.rec(i) = record{next: sl.spare}
	sl.spare = i
}

// floorPow2 returns the largest power of two that is at most n, n > 0.
func floorPow2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }
