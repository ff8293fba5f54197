// Package table ranks peers for every stretch of a pool, so that peers that
// take space at the same time take different space, and each takes the same
// again after it gave it back. It is the forwarding table of GLB Director,
// used as a preference: nothing is owned because of it.
//
// It refuses to know who owns a part of the pool now.
//
// A pool is cut into at most [MaxRows] rows of equal, aligned length. In each
// row peers are ranked by a keyed hash of their ID (rendezvous hashing): the
// first is the row's primary. The first of another zone than the primary's is
// its secondary, and the next one is where all are in one zone. So adding or losing
// a peer moves only that peer's rows, and spreads them evenly over the others.
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

// Peer is a peer that is ranked, and its zone.
type Peer struct {
	ID   peer.ID
	Zone peer.Zone
}

// Rank returns how many of the others rank before p in the row that holds o:
// 0 if p is its primary, 1 if it is its secondary. p itself may be among the
// others.
func (t Table) Rank(o addr.Offset, p Peer, others []Peer) int {
	seed := t.rowSeed(o)
	var l leaders
	own := score(seed, p.ID)
	l.add(p, own)
	rank := 0
	for _, q := range others {
		if q.ID == p.ID {
			continue
		}
		s := score(seed, q.ID)
		if l.add(q, s); before(s, q.ID, own, p.ID) {
			rank++
		}
	}
	switch {
	case l.second.ID == p.ID:
		return 1
	case rank > 0 && l.second.ID != peer.None && before(own, p.ID, l.secondScore, l.second.ID):
		return rank + 1 // the secondary ranks before it for its zone
	}
	return rank
}

// Leaders returns the primary and the secondary of the row that holds o among some peers; zero where there is none.
func (t Table) Leaders(o addr.Offset, among []Peer) (primary, secondary Peer) {
	seed := t.rowSeed(o)
	var l, rest leaders
	for _, q := range among {
		l.add(q, score(seed, q.ID))
	}
	if l.second.ID != peer.None {
		return l.first, l.second
	}
	for _, q := range among { // all are in one zone
		if q.ID != l.first.ID {
			rest.add(q, score(seed, q.ID))
		}
	}
	return l.first, rest.first
}

// leaders are the first of the peers that were added, and the first of those in another zone than that one.
type leaders struct {
	first, second           Peer
	firstScore, secondScore uint64
}

func (l *leaders) add(p Peer, score uint64) {
	switch {
	case l.first.ID == peer.None:
		l.first, l.firstScore = p, score
	case before(score, p.ID, l.firstScore, l.first.ID):
		if p.Zone != l.first.Zone {
			l.second, l.secondScore = l.first, l.firstScore
		}
		l.first, l.firstScore = p, score
	case p.Zone != l.first.Zone && (l.second.ID == peer.None || before(score, p.ID, l.secondScore, l.second.ID)):
		l.second, l.secondScore = p, score
	}
}
