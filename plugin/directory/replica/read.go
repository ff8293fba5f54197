package replica

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/internal/packed"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Get returns a key, from each peer that has set it.
func (r *Replica) Get(key string, now time.Time) []Record {
	var out []Record
	for _, s := range r.sections {
		if value := s.changes.Get(key); value != nil && s.counts(r, now) {
			out = append(out, s.record(key, value))
		}
	}
	sortRecords(out)
	return out
}

// List returns the keys with a prefix that come after one, in order, from each
// peer that has set them: so many keys at most, no further key once their values
// have so many bytes, and reports whether there are more. A key comes with all of
// its values.
func (r *Replica) List(prefix, after string, limit, bytes int, now time.Time) (out []Record, more bool) {
	var list []listed
	var key []byte
	last := ""            // what comes behind it is too much, if there is more
	enough := 2*limit + 1 // how many are sorted, so that what is too much goes
	for _, s := range r.sections {
		if !s.counts(r, now) {
			continue
		}
		for e := range s.changes.Current(0) {
			if !e.Below(prefix) {
				continue
			}
			if key = e.AppendKey(key[:0]); string(key) <= after || more && string(key) > last {
				continue
			}
			list = append(list, listed{string(key), s, *e})
			if len(list) >= enough {
				var cut bool
				list, cut = first(list, limit)
				if more = more || cut; more && len(list) > 0 {
					last = list[len(list)-1].key
				}
				enough = max(enough, 2*len(list))
			}
		}
	}
	list, cut := first(list, limit)
	for i := range list {
		if bytes <= 0 && list[i].key != list[i-1].key {
			return out, true
		}
		value := list[i].entry.Value()
		bytes -= len(value)
		out = append(out, list[i].in.record(list[i].key, value))
	}
	return out, more || cut
}

// Keys yields the keys with a prefix, each with the peer that has set it, in no
// order. The key is valid until the next one. The replica must not be changed
// meanwhile.
func (r *Replica) Keys(prefix string, now time.Time) iter.Seq2[[]byte, peer.ID] {
	return func(yield func([]byte, peer.ID) bool) {
		var key []byte
		for _, s := range r.sections {
			if !s.counts(r, now) {
				continue
			}
			for e := range s.changes.Current(0) {
				if !e.Below(prefix) {
					continue
				}
				if key = e.AppendKey(key[:0]); !yield(key, s.origin) {
					return
				}
			}
		}
	}
}

// Values yields the values of the keys with a prefix, in no order. A value is valid until the next one. The replica must
// not be changed meanwhile.
func (r *Replica) Values(prefix string, now time.Time) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var value []byte
		for _, s := range r.sections {
			if !s.counts(r, now) {
				continue
			}
			for e := range s.changes.Current(0) {
				if !e.Below(prefix) {
					continue
				}
				if value = e.AppendValue(value[:0]); !yield(value) {
					return
				}
			}
		}
	}
}

// Of returns a key as one peer has set it; false if it has not.
func (r *Replica) Of(origin peer.ID, key string, now time.Time) (Record, bool) {
	s := r.sections[origin]
	if s == nil || !s.counts(r, now) {
		return Record{}, false
	}
	value := s.changes.Get(key)
	return s.record(key, value), value != nil
}

// listed is a record whose value has not been needed yet.
type listed struct {
	key   string
	in    *section
	entry packed.Entry
}

// first sorts a list and cuts it behind so many keys, and reports whether there
// were more.
func first(list []listed, keys int) ([]listed, bool) {
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(strings.Compare(a.key, b.key), a.in.origin.Compare(b.in.origin))
	})
	for i := range list {
		if i == 0 || list[i].key != list[i-1].key {
			if keys--; keys < 0 {
				return list[:i], true
			}
		}
	}
	return list, false
}

// counts reports whether a section is to be seen.
func (s *section) counts(r *Replica, now time.Time) bool {
	return s == r.own || local(s.origin) || s.live && now.Before(s.expires)
}

func (s *section) record(key string, value []byte) Record {
	out := Record{Key: key, Value: value, Origin: s.origin}
	if !local(s.origin) && !s.expires.IsZero() {
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
		if !local(id) {
			size.Peers++
		}
		size.Records += s.changes.Live()
	}
	return size
}
