package replica

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/internal/packed"
	"github.com/ringlet/ringlet/ipam/peer"
)

const (
	// Lease is how long a section counts after its peer has renewed it.
	Lease = 15 * time.Minute
	// keep is how long a section is kept out of sight after that.
	keep = time.Hour
	// MaxOrigins is how many peers a replica has sections of.
	MaxOrigins = 4096
	// Buckets is into how many parts the peers are divided for comparing.
	Buckets = 32
)

// Foreign is the origin of keys of other clusters, which no peer has. They came
// to this replica by another way, and it sends them to nobody.
var Foreign = peer.ID(bytes.Repeat([]byte{0xff}, len(peer.ID{}))) //nolint:gochecknoglobals // Go has no constant arrays

// local reports whether a section is this replica's alone: nobody sends it, and
// nobody is sent it.
func local(id peer.ID) bool { return id == peer.None || id == Foreign }

// Replica is one peer's copy of the directory. Use [New].
type Replica struct {
	own      *section
	agreed   *section // what needs no replication, see SetAgreed
	foreign  *section // what other clusters say, see SetForeign
	sections map[peer.ID]*section
	sums     [Buckets]uint64 // of the live sections
	leases   [Buckets]uint64 // the same, with their renewals
	events   []Event

	maxBytes, maxAllBytes int // MaxBytes and MaxAllBytes; tests set less
}

// Record is one key as one peer has set it.
type Record struct {
	Key    string
	Value  []byte
	Origin peer.ID   // peer.None: agreed; Foreign: of another cluster
	Heard  time.Time // when the lease was last renewed, as far as is known; zero: it needs none
}

// Event is that a key was set, or removed by that peer or with it: then its
// Value is nil.
type Event struct {
	Key    string
	Value  []byte
	Origin peer.ID
}

// New returns the replica of a peer that has just started.
func New(self peer.ID, boot peer.Boot) *Replica {
	r := &Replica{
		own: &section{origin: self, boot: boot, live: true}, agreed: &section{live: true},
		foreign: &section{origin: Foreign, live: true}, maxBytes: MaxBytes, maxAllBytes: MaxAllBytes,
	}
	r.clear()
	return r
}

// clear makes the own section the only one.
func (r *Replica) clear() {
	r.sections = map[peer.ID]*section{r.own.origin: r.own, peer.None: r.agreed, Foreign: r.foreign}
	r.sums, r.leases = [Buckets]uint64{}, [Buckets]uint64{}
	r.toggle(r.own)
}

// Forget drops what other peers have said: this one belongs to another
// cluster now.
func (r *Replica) Forget() {
	for _, s := range r.others() {
		r.show(s, nil, &s.changes)
	}
	r.clear()
}

// others returns the sections of other peers that count, in order.
func (r *Replica) others() []*section {
	var out []*section
	for id, s := range r.sections {
		if !local(id) && s != r.own && s.live {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *section) int { return a.origin.Compare(b.origin) })
	return out
}

// toggle puts a section into the sums, or takes it out.
func (r *Replica) toggle(s *section) {
	if s.live && !local(s.origin) {
		b := bucket(s.origin)
		r.sums[b] ^= s.hash(false)
		r.leases[b] ^= s.hash(true)
	}
}

// bucket is the bucket of a peer. Its ID is random.
func bucket(id peer.ID) int { return int(id[len(id)-1]) % Buckets }

// Digest is a hash of all that the replica has: that of two is the same if
// they have the same, and hardly ever else.
func (r *Replica) Digest() uint64 {
	var sum uint64
	for _, n := range r.sums {
		sum ^= n
	}
	return sum
}

// Set sets a key of this peer's, and reports whether that changes anything. A
// key or value that is too long or empty is refused.
func (r *Replica) Set(key string, value []byte) bool {
	if key == "" || len(key) > MaxKey || len(value) == 0 || len(value) > MaxValue || r.own.changes.Live() >= MaxRecords && !r.own.changes.Has(key) {
		return false
	}
	return r.set(r.own, key, value)
}

// SetAgreed sets a key that each peer knows by itself, and which is therefore
// sent to nobody, so that it has no limits.
func (r *Replica) SetAgreed(key string, value []byte) bool { return r.set(r.agreed, key, value) }

// SetForeign sets a key of another cluster, and reports whether there was room for
// it: at most MaxForeign keys, and MaxForeignBytes.
func (r *Replica) SetForeign(key string, value []byte) bool {
	if key == "" || len(key) > MaxKey || len(value) == 0 || len(value) > MaxValue {
		return false
	}
	if c := &r.foreign.changes; !c.Has(key) && c.Live() >= MaxForeign || c.Bytes()+len(key)+len(value) > MaxForeignBytes {
		return false
	}
	r.set(r.foreign, key, value)
	return true
}

// RemoveForeign undoes [Replica.SetForeign].
func (r *Replica) RemoveForeign(key string) bool { return r.remove(r.foreign, key) }

// ForeignKeys returns the keys of other clusters, in order.
func (r *Replica) ForeignKeys() []string { return keysBelow(r.foreign, "") }

func (r *Replica) set(s *section, key string, value []byte) bool {
	if s.changes.Is(key, value) {
		return false
	}
	r.write(s, key, value)
	return true
}

// Remove removes a key of this peer's, and reports whether it was there.
func (r *Replica) Remove(key string) bool { return r.remove(r.own, key) }

// RemoveAgreed undoes [Replica.SetAgreed].
func (r *Replica) RemoveAgreed(key string) bool { return r.remove(r.agreed, key) }

func (r *Replica) remove(s *section, key string) bool {
	there := s.changes.Has(key)
	if there {
		r.write(s, key, nil)
	}
	return there
}

func (r *Replica) write(s *section, key string, value []byte) {
	r.toggle(s)
	s.put(s.seq+1, key, value)
	r.toggle(s)
	r.events = append(r.events, Event{key, value, s.origin})
}

// Renew renews the lease of this peer's section.
func (r *Replica) Renew(now time.Time) {
	r.toggle(r.own)
	r.own.renewal++
	r.own.expires = now.Add(Lease)
	r.toggle(r.own)
}

// Seq is the number of this peer's last change.
func (r *Replica) Seq() uint64 { return r.own.seq }

// Since returns this peer's changes behind a number, or only its lease if
// there are none; false if they take more than so many bytes.
func (r *Replica) Since(seq uint64, room int, now time.Time) (Pages, bool) {
	p := r.own.part(Position{Origin: r.own.origin, Boot: r.own.boot, Seq: seq}, room, now)
	m := Pages{Parts: []Part{p}}
	return m, !p.Whole && p.To == p.Head && len(Encode(m)) <= room
}

// Own returns the keys of this peer's section below a prefix, in order.
func (r *Replica) Own(prefix string) []string { return keysBelow(r.own, prefix) }

// OwnAfter returns what this peer has set below a prefix by changes behind a
// number and is so still, in the order of those. An entry is valid until the next,
// and nothing may be changed meanwhile.
func (r *Replica) OwnAfter(prefix string, seq uint64) iter.Seq[*packed.Entry] {
	return func(yield func(*packed.Entry) bool) {
		for e := range r.own.changes.Current(seq) {
			if e.Below(prefix) && !yield(e) {
				return
			}
		}
	}
}

// Agreed returns the keys that were set with [Replica.SetAgreed].
func (r *Replica) Agreed(prefix string) []string { return keysBelow(r.agreed, prefix) }

func keysBelow(s *section, prefix string) (out []string) {
	for e := range s.changes.Current(0) {
		if e.Below(prefix) {
			out = append(out, e.Key())
		}
	}
	slices.Sort(out)
	return out
}

// Tick ends the leases that have run out, and returns when to call it again at
// the latest; zero if there is nothing to wait for.
func (r *Replica) Tick(now time.Time) (next time.Time) {
	for id, s := range r.sections {
		if local(id) || s == r.own {
			continue
		}
		if s.live && !now.Before(s.expires) {
			r.toggle(s)
			s.live = false
			r.show(s, nil, &s.changes)
		}
		end := s.expires
		if s.boot == 0 {
			end = s.asked // nothing of it has come
		}
		if !s.live {
			end = end.Add(keep)
		}
		if !s.live && !now.Before(end) {
			delete(r.sections, id)
			continue
		}
		if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	return next
}

// show notes how what is seen of a section changes.
func (r *Replica) show(s *section, now, before *packed.Log) {
	var none packed.Log
	if now == nil {
		now = &none
	}
	if before == nil {
		before = &none
	}
	from := len(r.events)
	for e := range before.Current(0) {
		if key := e.Key(); !now.Has(key) {
			r.events = append(r.events, Event{key, nil, s.origin})
		}
	}
	sortEvents(r.events[from:])
	from = len(r.events)
	for e := range now.Current(0) {
		if key, value := e.Key(), e.Value(); !before.Is(key, value) {
			r.events = append(r.events, Event{key, value, s.origin})
		}
	}
	sortEvents(r.events[from:])
}

func sortEvents(list []Event) {
	slices.SortFunc(list, func(a, b Event) int { return strings.Compare(a.Key, b.Key) })
}

// Events returns what has changed since it was last called, in order.
func (r *Replica) Events() []Event {
	out := r.events
	r.events = nil
	return out
}
