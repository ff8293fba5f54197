// Package table ranks peers for every stretch of a pool, so that peers that
// take space at the same time take different space, and each takes the same
// again after it gave it back. It is the forwarding table of GLB Director,
// used as a preference: nothing is owned because of it.
//
// A pool is cut into at most [MaxRows] rows of equal, aligned length. In each
// row peers are ranked by a keyed hash of their ID (rendezvous hashing): the
// first is the row's primary, the next its secondary. So adding or losing a
// peer moves only that peer's rows, and spreads them evenly over the others.
//
// The seeds and the order in which bytes are hashed belong to the protocol:
// they are frozen by a test, for peers of every release must agree on them.
package table

import (
	"encoding/binary"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
)

// MaxRows is the number of rows of a large pool.
const MaxRows = 65536

// minRow is the length of a row in a small pool: the smallest chunk that
// peers open (protocol, 3.3).
const minRow = 8

// Table ranks peers in the rows of one pool. It is a value.
type Table struct {
	seed uint64
	row  addr.Count // length of a row, a power of two
}

// New returns the table of the pool that slot and place created in the
// cluster, with size addresses.
func New(cluster [16]byte, slot uint64, place uint32, size addr.Count) Table {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:8], slot)
	binary.BigEndian.PutUint32(b[8:], place)
	row := addr.Count(minRow)
	for (size-1)/row >= MaxRows {
		row *= 2
	}
	return Table{
		seed: Hash(binary.BigEndian.Uint64(cluster[:8]), binary.BigEndian.Uint64(cluster[8:]), b[:]),
		row:  row,
	}
}

// Row returns the range of the row that holds o.
func (t Table) Row(o addr.Offset) addr.Range {
	start := o - o%addr.Offset(t.row)
	end := start + addr.Offset(t.row)
	if end < start { // the last row of a /64
		end = ^addr.Offset(0)
	}
	return addr.Range{Start: start, End: end}
}

// rowSeed returns the seed of the row that holds o.
func (t Table) rowSeed(o addr.Offset) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(o)/uint64(t.row))
	return Hash(t.seed, 0, b[:])
}

// score is what peers are ranked by in a row, higher before lower.
func score(rowSeed uint64, p peer.ID) uint64 { return Hash(rowSeed, 0, p[:]) }

// Before reports whether p ranks before q in the row that holds o. Equal
// scores are told apart by ID.
func (t Table) Before(o addr.Offset, p, q peer.ID) bool {
	seed := t.rowSeed(o)
	return before(score(seed, p), p, score(seed, q), q)
}

func before(sp uint64, p peer.ID, sq uint64, q peer.ID) bool {
	if sp != sq {
		return sp > sq
	}
	return p.Compare(q) < 0
}

// Rank returns how many of the others rank before p in the row that holds o:
// 0 if p is its primary, 1 if it is its secondary. p itself may be among the
// others.
func (t Table) Rank(o addr.Offset, p peer.ID, others []peer.ID) int {
	seed := t.rowSeed(o)
	own := score(seed, p)
	rank := 0
	for _, q := range others {
		if q != p && before(score(seed, q), q, own, p) {
			rank++
		}
	}
	return rank
}
