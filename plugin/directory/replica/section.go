package replica

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/table"
)

// Limits of a section.
const (
	// MaxKey and MaxValue are the longest key and value, in bytes.
	MaxKey   = 512
	MaxValue = 32 << 10
	// MaxRecords is how many keys one peer can have.
	MaxRecords = 1 << 20
	// maxRemovals is how many removals are remembered at least. Who lacks more
	// gets the section as a whole.
	maxRemovals = 512
)

// section is what one peer says, up to a change.
type section struct {
	origin  peer.ID
	boot    peer.Boot // 0: nothing is known yet
	seq     uint64    // the last change that is in it
	floor   uint64    // removals up to this change may be forgotten
	records map[string]record
	log     []change // by number; some were overtaken

	renewal uint64    // how often the lease was renewed, in this boot
	expires time.Time // by this replica's clock
	live    bool      // the lease runs: the section counts

	incoming *incoming // what has come of what is to follow; nil: nothing
	asked    time.Time // when somebody was last asked for more
}

// record is the value of a key, and which change set it.
type record struct {
	seq   uint64
	value []byte
}

// change is that a key was set or removed: what it is now is in the records.
type change struct {
	seq uint64
	key string
}

// mark says how far a replica is with a section.
type mark struct {
	boot peer.Boot
	seq  uint64
}

func (s *section) mark() mark { return mark{s.boot, s.seq} }

// compare orders marks of one section by time.
func (m mark) compare(n mark) int {
	return cmp.Or(cmp.Compare(m.boot, n.boot), cmp.Compare(m.seq, n.seq))
}

// hash is the share of the section in a summary.
func (s *section) hash(leases bool) uint64 {
	b := make([]byte, 0, 40)
	b = append(b, s.origin[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.boot))
	b = binary.BigEndian.AppendUint64(b, s.seq)
	if leases {
		b = binary.BigEndian.AppendUint64(b, s.renewal)
	}
	return table.Hash(0, 0, b)
}

// put makes the next change. A nil value removes the key.
func (s *section) put(seq uint64, key string, value []byte) {
	if s.records == nil {
		s.records = map[string]record{}
	}
	if value == nil {
		delete(s.records, key)
	} else {
		s.records[key] = record{seq, value}
	}
	s.log = append(s.log, change{seq, key})
	s.seq = seq
	if len(s.log) > 2*(len(s.records)+maxRemovals) {
		s.compact()
	}
}

// compact drops the changes that later ones have overtaken, and all removals
// but the last.
func (s *section) compact() {
	var kept []change
	removed := map[string]bool{}
	for _, c := range slices.Backward(s.log) {
		rec, there := s.records[c.key]
		switch {
		case there && rec.seq == c.seq:
		case there || removed[c.key]:
			continue
		case len(removed) >= maxRemovals:
			s.floor = max(s.floor, c.seq)
			continue
		default:
			removed[c.key] = true
		}
		kept = append(kept, c)
	}
	slices.Reverse(kept)
	s.log = kept
}

// part returns what a replica lacks that is at a position, of at most so many
// bytes unless one change alone is longer.
func (s *section) part(at Position, room int, now time.Time) Part {
	p := Part{Origin: s.origin, Boot: s.boot, From: at.Seq, Head: s.seq, Floor: s.floor, Renewal: s.renewal, Left: s.left(now)}
	if at.Boot != s.boot || s.floor > max(at.Seq, at.Base) {
		p.Whole, p.From = true, 0
	}
	p.To = p.From
	first, _ := slices.BinarySearchFunc(s.log, p.From+1, func(c change, seq uint64) int { return cmp.Compare(c.seq, seq) })
	for _, c := range s.log[first:] {
		rec, there := s.records[c.key]
		switch {
		case there && rec.seq != c.seq, !there && p.Whole:
			p.To = c.seq
			continue
		}
		put := Put{Seq: c.seq, Key: c.key, Value: rec.value}
		if room -= put.size(); room < 0 && len(p.Puts) > 0 {
			return p
		}
		p.Puts = append(p.Puts, put)
		p.To = c.seq
	}
	p.To = max(p.To, s.seq)
	return p
}

// left is how much is left of the lease.
func (s *section) left(now time.Time) time.Duration { return max(s.expires.Sub(now), 0) }
