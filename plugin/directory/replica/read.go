package replica

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Get returns a key, from each peer that has set it.
func (r *Replica) Get(key string, now time.Time) []Record {
	var out []Record
	for _, s := range r.sections {
		if rec, there := s.records[key]; there && s.counts(r, now) {
			out = append(out, s.record(key, rec))
		}
	}
	sortRecords(out)
	return out
}

// List returns the keys with a prefix that come after one, in order, from each
// peer that has set them: so many keys at most, and reports whether there are
// more.
func (r *Replica) List(prefix, after string, limit int, now time.Time) (out []Record, more bool) {
	for _, s := range r.sections {
		if !s.counts(r, now) {
			continue
		}
		for key, rec := range s.records {
			if strings.HasPrefix(key, prefix) && key > after {
				out = append(out, s.record(key, rec))
			}
		}
	}
	sortRecords(out)
	keys := 0
	for i := range out {
		if i == 0 || out[i].Key != out[i-1].Key {
			if keys++; keys > limit {
				return out[:i], true
			}
		}
	}
	return out, false
}

// counts reports whether a section is to be seen.
func (s *section) counts(r *Replica, now time.Time) bool {
	return s == r.own || s.origin == peer.None || s.live && now.Before(s.expires)
}

func (s *section) record(key string, rec record) Record {
	out := Record{Key: key, Value: rec.value, Origin: s.origin}
	if s.origin != peer.None && !s.expires.IsZero() {
		out.Heard = s.expires.Add(-Lease)
	}
	return out
}

func sortRecords(list []Record) {
	slices.SortFunc(list, func(a, b Record) int { return cmp.Or(strings.Compare(a.Key, b.Key), a.Origin.Compare(b.Origin)) })
}

// Size says how much a replica holds.
type Size struct {
	Peers   int // whose sections count, this one's included
	Records int
}

// Size returns how much the replica holds of what counts.
func (r *Replica) Size() Size {
	size := Size{}
	for id, s := range r.sections {
		if !s.live {
			continue
		}
		if id != peer.None {
			size.Peers++
		}
		size.Records += len(s.records)
	}
	return size
}
