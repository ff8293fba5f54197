package gossip

import (
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Limits of what is on its way to one peer.
const (
	maxOutbox      = 256      // parcels
	maxOutboxBytes = 32 << 20 // two of the longest
	maxOwed        = maxOutbox
	// maxStreams is how many streams are open at a time, beside one for a parcel
	// of more than bulk bytes: on a slow line several of these would all end at
	// their deadline.
	maxStreams = 4
	bulk       = 64 << 10
	// maxLife is how long a parcel is tried: who sent it has asked again since.
	maxLife = time.Second
	// maxFlying is how many pieces are under way at a time. Parcels with which
	// they would be more go over streams, which slow down where the network does
	// not keep up: the kernel of the other host keeps some 200 packets, of all
	// peers together.
	maxFlying = 32
	// receiptWait is how long a receipt waits for a datagram to that peer that it
	// can travel with, an answer as a rule, and that for a piece for that of the
	// whole parcel, which stands for it. It is far below minPatience.
	receiptWait = 10 * time.Millisecond
)

// outbox is what is on its way to other peers. Parcels go as datagrams, again
// and again until a receipt comes, and over a stream if they are too long or
// no receipt does. One goroutine sends datagrams; each stream has its own, so a
// peer that does not read delays nobody else.
type outbox struct {
	g    *Gossip
	wake chan struct{} // has room for one

	mu      sync.Mutex
	session *session // nil: nothing can be sent
	lines   map[peer.ID]*line
	reached map[peer.ID]*reach
	owed    map[peer.ID]*owed
}

// owed are receipts that are owed to one peer.
type owed struct {
	ids []uint64
	due time.Time
}

// line is what is on its way to one peer.
type line struct {
	*reach
	parcels []*parcel // in the order in which they came
	bytes   int       // of parcels and streams
	open    int       // streams
	bulky   int       // those of them that are not counted in maxStreams
}

func newOutbox(g *Gossip) *outbox { return &outbox{g: g, wake: make(chan struct{}, 1)} }

func (o *outbox) open(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = s
	o.lines = make(map[peer.ID]*line)
	o.reached = make(map[peer.ID]*reach)
	o.owed = make(map[peer.ID]*owed)
}

// close drops what waits. Streams end with what they are sending.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = nil
	for _, l := range o.lines {
		for _, p := range l.parcels {
			o.give(l, p)
		}
	}
	o.lines, o.reached, o.owed = nil, nil, nil
}

// put begins to send frames to a peer. If too much is on its way there the
// oldest goes: what is newer says more.
func (o *outbox) put(to peer.ID, frames ...[]byte) {
	parcels := pack(frames) // before the lock is held, since frames may be long
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session == nil {
		o.g.counts.dropped.Add(uint64(len(frames)))
		return
	}
	l, now := o.line(to), time.Now() // on a busy host long frames take most of a parcel's life to pack
	for _, p := range parcels {
		p.born = now
		l.parcels = append(l.parcels, p)
		l.bytes += len(p.body)
	}
	for len(l.parcels) > maxOutbox || l.bytes > maxOutboxBytes && len(l.parcels) > 0 {
		o.give(l, l.parcels[0])
		l.parcels = slices.Delete(l.parcels, 0, 1)
	}
	poke(o.wake)
}

// line is called with the lock held.
func (o *outbox) line(to peer.ID) *line {
	l := o.lines[to]
	if l == nil {
		r := o.reached[to]
		if r == nil {
			r = &reach{}
			o.reached[to] = r
		}
		l = &line{reach: r}
		o.lines[to] = l
	}
	return l
}

// give gives a parcel up, which its line forgets. It returns true.
func (o *outbox) give(l *line, p *parcel) bool {
	p.done = true
	l.bytes -= len(p.body)
	switch {
	case !p.sent:
		o.g.counts.dropped.Add(p.frames)
	case p.stream != streamed:
		o.g.counts.unconfirmed.Add(p.frames)
	}
	return true
}

// owe has a receipt sent for a parcel in so many pieces that came from a peer,
// or for a piece, soon.
func (o *outbox) owe(to peer.ID, id uint64, pieces int, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session == nil {
		return
	}
	w := o.owed[to]
	if w == nil {
		w = &owed{due: now.Add(receiptWait)}
		o.owed[to] = w
		poke(o.wake)
	}
	w.ids = slices.DeleteFunc(w.ids, func(other uint64) bool { return other-id <= uint64(pieces) })
	if len(w.ids) < maxOwed {
		w.ids = append(w.ids, id)
	}
}

// arrived notes the receipt for a parcel, or for a piece of one.
func (o *outbox) arrived(from peer.ID, id uint64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lines[from]
	if l == nil {
		return
	}
	i := slices.IndexFunc(l.parcels, func(p *parcel) bool { return p.confirmedBy(id) })
	if i < 0 {
		return
	}
	p := l.parcels[i]
	if n := id - p.id; n > 0 {
		one := &p.posts[n-1]
		l.receipt(now.Sub(one.last), one.times == 1)
		one.there = true
		if p.stream == noStream && !slices.ContainsFunc(p.posts, func(one post) bool { return !one.there }) {
			p.stream = awaited // the receiver had all pieces, but not together
			poke(o.wake)
		}
		return
	}
	l.receipt(now.Sub(p.posts[0].last), !slices.ContainsFunc(p.posts, func(one post) bool { return one.times != 1 }))
	p.done = true
	l.bytes -= len(p.body)
	l.parcels = slices.Delete(l.parcels, i, i+1)
	if slices.ContainsFunc(l.parcels, func(next *parcel) bool { return next.behind == p }) {
		poke(o.wake)
	}
}

// forget drops what is known of the way to a peer.
func (o *outbox) forget(id peer.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.reached, id)
}
