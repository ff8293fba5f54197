package replica

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/ringlet/ringlet/internal/packed"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/table"
)

// Limits of a section.
const (
	// MaxKey and MaxValue are the longest key and value, in bytes. A key has room for a label set of 1,024 bytes and the
	// name of a host of 255.
	MaxKey   = 1536
	MaxValue = 32 << 10
	// MaxRecords is how many keys one peer can have.
	MaxRecords = 1 << 20
	// MaxBytes is how much memory the changes of one other peer may take, and
	// MaxAllBytes those of all others together, in bytes. A host with 100,000
	// addresses takes some 20 MiB. A peer has the cluster's key, but a faulty one
	// must not take the memory of every host.
	MaxBytes    = 256 << 20
	MaxAllBytes = 1 << 30
	// maxRemovals is how many removals are remembered at least. Who lacks more
	// gets the section as a whole.
	maxRemovals = 512
	// MaxForeign is how many keys of other clusters are shown, and MaxForeignBytes
	// how much memory they may take, in bytes.
	MaxForeign      = 1 << 18
	MaxForeignBytes = 64 << 20
)

// section is what one peer says, up to a change.
type section struct {
	origin  peer.ID
	boot    peer.Boot // 0: nothing is known yet
	seq     uint64    // the last change that is in it
	floor   uint64    // removals up to this change may be forgotten
	changes packed.Log

	renewal uint64    // how often the lease was renewed, in this boot
	expires time.Time // by this replica's clock
	live    bool      // the lease runs: the section counts

	incoming *incoming // what has come of what is to follow; nil: nothing
	asked    time.Time // when somebody was last asked for more
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

// hash is the share of the section in a digest.
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
	s.changes.Put(seq, key, value)
	s.seq = seq
	s.shrink()
}

// shrink keeps the list of changes from growing without end.
func (s *section) shrink() {
	if s.changes.Len() > 2*(s.changes.Live()+maxRemovals) {
		s.compact()
	}
}

// compact drops the changes that later ones have overtaken, and all removals
// but the last.
func (s *section) compact() { s.floor = max(s.floor, s.changes.Compact(maxRemovals)) }

// part returns what a replica lacks that is at a position, of at most so many
// bytes unless one change alone is longer.
func (s *section) part(at Position, room int, now time.Time) Part {
	p := Part{Origin: s.origin, Boot: s.boot, From: at.Seq, Head: s.seq, Floor: s.floor, Renewal: s.renewal, Left: s.left(now)}
	if at.Boot != s.boot || s.floor > max(at.Seq, at.Base) {
		p.Whole, p.From = true, 0
	}
	p.To = p.From
	for e := range s.changes.After(p.From) {
		if e.Overtaken() || e.Removal() && p.Whole {
			p.To = e.Seq
			continue
		}
		put := Put{Seq: e.Seq, Key: e.Key(), Value: e.Value()}
		if room -= put.size(); room < 0 && len(p.Puts) > 0 {
			return p
		}
		p.Puts = append(p.Puts, put)
		p.To = e.Seq
	}
	p.To = max(p.To, s.seq)
	return p
}

// left is how much is left of the lease.
func (s *section) left(now time.Time) time.Duration { return max(s.expires.Sub(now), 0) }
