package gossip

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/gossip/guard"
)

// What streams may take whose messages have not arrived yet, or are being
// handled: of all together, of one source, and of all strangers. A stranger is
// whose address is not known: the other half is for those that are. What is read
// counts by the memory that it takes, which is up to twice as much; while it is
// decrypted it takes as much again, and memberlist takes up to four times as
// much for what a peer has sent.
const (
	maxReading     = 64 << 20 // bytes
	maxReadingEach = 24 << 20 // more than the longest frame
	maxInbound     = 512      // streams that others have opened
	maxInboundEach = 128

	strangersReading = maxReading / 2
	strangersInbound = maxInbound / 2
	// maxStranger is how long a message of a stranger may be: what a host sends that comes to a cluster is far shorter.
	maxStranger = 1 << 20
	// strangerTime is how long a stranger's stream may take for what it begins with.
	strangerTime = time.Second
)

// intake bounds what is read of streams before anybody knows whose they are.
// Where there is too much, the source that takes most loses its oldest stream,
// so that a source with little gets in. Safe for concurrent use; the zero
// value is ready.
type intake struct {
	mu        sync.Mutex
	all       reading
	strangers reading
	each      map[origin]*source
	next      uint64
	ended     bool
}

// reading is what some streams take.
type reading struct{ streams, bytes int }

// origin is what counts as one source: an address that is known, or where strangers are.
type origin struct {
	addr     netip.Addr
	stranger bool
}

// source is what streams of one origin take.
type source struct {
	origin
	reading
	pending []*place // the oldest first; those that may have to go
}

// place is what one stream takes.
type place struct {
	of     *source
	number uint64 // in the order of their coming
	dialed bool   // this peer has opened it: its number counts nowhere
	bytes  int
	gone   bool
	end    func() // closes the stream
}

// admit makes room for a stream of an address, and reports whether there is any.
func (i *intake) admit(from netip.Addr, known bool, end func()) (*place, bool) {
	o := origin{addr: from}
	if !known {
		o = origin{guard.Source(from), true}
	}
	i.mu.Lock()
	if i.ended {
		i.mu.Unlock()
		return nil, false
	}
	p := i.add(o, end)
	p.of.streams++
	i.all.streams++
	if o.stranger {
		i.strangers.streams++
	}
	victim, full := i.crowded(p)
	if full && victim == nil {
		victim = p
	}
	if full {
		i.remove(victim)
	}
	i.mu.Unlock()
	if full && victim != p {
		victim.end()
	}
	return p, victim != p
}

// dialed makes room for the answer on a stream that this peer has opened.
func (i *intake) dialed(to netip.Addr, end func()) *place {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.add(origin{addr: to}, end)
	p.dialed = true
	return p
}

func (i *intake) add(o origin, end func()) *place {
	src := i.each[o]
	if src == nil {
		if i.each == nil {
			i.each = make(map[origin]*source)
		}
		src = &source{origin: o}
		i.each[o] = src
	}
	i.next++
	p := &place{of: src, number: i.next, end: end}
	src.pending = append(src.pending, p)
	return p
}

// crowded reports whether there is a stream too many since the last one came, and which one has to go for it; nil: none
// can.
func (i *intake) crowded(last *place) (*place, bool) {
	counts := func(p *place) bool { return !p.dialed && p != last }
	streams := func(s *source) int { return s.streams }
	switch {
	case last.of.streams > maxInboundEach:
		return last.of.oldest(counts), true
	case last.of.stranger && i.strangers.streams > strangersInbound:
		return i.largest(true, streams, counts), true
	case i.all.streams > maxInbound:
		victim := i.largest(true, streams, counts)
		if victim == nil {
			victim = i.largest(false, streams, counts)
		}
		return victim, true
	}
	return nil, false
}

// take counts bytes that are read of a stream, and reports whether there is room for them.
func (i *intake) take(p *place, n int) bool {
	var victims []*place
	i.mu.Lock()
	if !p.gone {
		i.count(p, n)
	}
	for !p.gone {
		victim, over := i.heavy(p)
		if !over {
			break
		}
		if victim == nil {
			victim = p
		}
		i.remove(victim)
		victims = append(victims, victim)
	}
	ok := !p.gone
	i.mu.Unlock()
	for _, victim := range victims {
		victim.end()
	}
	return ok
}

// heavy reports whether there is a byte too many, and whose stream has to go for it.
func (i *intake) heavy(p *place) (*place, bool) {
	counts := func(p *place) bool { return p.bytes > 0 }
	bytes := func(s *source) int { return s.bytes }
	switch {
	case p.of.bytes > maxReadingEach:
		return p.of.oldest(counts), true
	case p.of.stranger && i.strangers.bytes > strangersReading:
		return i.largest(true, bytes, counts), true
	case i.all.bytes > maxReading:
		victim := i.largest(true, bytes, counts)
		if victim == nil {
			victim = i.largest(false, bytes, counts)
		}
		return victim, true
	}
	return nil, false
}

// largest returns the oldest stream that counts of the source that takes most; of two alike, the older one.
func (i *intake) largest(strangers bool, size func(*source) int, counts func(*place) bool) *place {
	var victim *place
	for _, src := range i.each {
		if strangers && !src.stranger {
			continue
		}
		p := src.oldest(counts)
		if p == nil {
			continue
		}
		if victim == nil || size(src) > size(victim.of) || size(src) == size(victim.of) && p.number < victim.number {
			victim = p
		}
	}
	return victim
}

func (s *source) oldest(counts func(*place) bool) *place {
	at := slices.IndexFunc(s.pending, counts)
	if at < 0 {
		return nil
	}
	return s.pending[at]
}

// settle notes that a stream is a peer's: it need not go for another one.
func (i *intake) settle(p *place) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p.of.drop(p)
}

// release counts a stream no more. It may be called more than once.
func (i *intake) release(p *place) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !p.gone {
		i.remove(p)
	}
}

// lost reports whether a stream had to go for others.
func (i *intake) lost(p *place) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return p.gone
}

// remove is called with the lock held.
func (i *intake) remove(p *place) {
	i.count(p, -p.bytes)
	p.gone = true
	p.of.drop(p)
	if !p.dialed {
		p.of.streams--
		i.all.streams--
		if p.of.stranger {
			i.strangers.streams--
		}
	}
	if len(p.of.pending) == 0 && p.of.reading == (reading{}) {
		delete(i.each, p.of.origin)
	}
}

// count is called with the lock held.
func (i *intake) count(p *place, n int) {
	p.bytes += n
	p.of.bytes += n
	i.all.bytes += n
	if p.of.stranger {
		i.strangers.bytes += n
	}
}

func (s *source) drop(p *place) {
	s.pending = slices.DeleteFunc(s.pending, func(other *place) bool { return other == p })
}

// close ends all streams that may have to go, and admits no more.
func (i *intake) close() {
	i.mu.Lock()
	i.ended = true
	var all []*place
	for _, src := range i.each {
		all = append(all, src.pending...)
	}
	i.mu.Unlock()
	for _, p := range all {
		p.end()
	}
}
