package guard

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// How many packets of strangers are decrypted in vain.
const (
	perSource  = 100 // a second, of those that share a slot
	burstOfOne = 200
	perAll     = 2000 // a second
	burstOfAll = 4000
	refilled   = 2 * time.Second // from a burst until nothing is spent
	slots      = 256
)

// Source returns what counts as one source: an address, and of IPv6 a /64, of
// which one host may have all.
func Source(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a // it is none
	}
	return p.Addr()
}

// Failures bounds how much is decrypted in vain, of one source and of all. Sources
// share a fixed number of slots, so that those which somebody makes up take no
// memory. Safe for concurrent use; use [NewFailures].
type Failures struct {
	seed maphash.Seed
	last atomic.Int64 // when something was decrypted in vain, in nanoseconds of Unix time; 0: never

	mu   sync.Mutex
	all  bucket
	each [slots]bucket
}

// NewFailures returns one of which nothing is spent.
func NewFailures() *Failures { return &Failures{seed: maphash.MakeSeed()} }

// bucket is a token bucket that counts what is missing, so that the zero value is full.
type bucket struct {
	spent float64
	last  time.Time
}

func (b *bucket) refill(rate float64, now time.Time) {
	if past := now.Sub(b.last); past > 0 {
		b.spent = max(0, b.spent-past.Seconds()*rate)
		b.last = now
	}
}

func (f *Failures) slot(from netip.Addr) *bucket {
	return &f.each[maphash.Comparable(f.seed, Source(from))%slots]
}

// Left reports whether something of a source may be decrypted now. Where nothing was in vain lately it costs next to
// nothing: it is asked about each packet of a peer's as well.
func (f *Failures) Left(from netip.Addr, now time.Time) bool {
	if now.UnixNano()-f.last.Load() > int64(refilled) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.slot(from)
	one.refill(perSource, now)
	f.all.refill(perAll, now)
	return one.spent < burstOfOne && f.all.spent < burstOfAll
}

// Spend counts something of a source that was decrypted in vain.
func (f *Failures) Spend(from netip.Addr, now time.Time) {
	f.last.Store(now.UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.slot(from)
	one.refill(perSource, now)
	f.all.refill(perAll, now)
	one.spent++
	f.all.spent++
}
