package gossip

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Limits of what waits for one peer.
const (
	maxOutbox      = 256      // frames
	maxOutboxBytes = 32 << 20 // two of the longest
	// maxWait is how long a frame may wait: who sent it has asked again since.
	maxWait = 10 * time.Second
)

// outbox is what waits to be sent, a queue for each peer. A queue that is not
// empty has a goroutine that empties it, so a peer that does not read delays
// nobody else.
type outbox struct {
	g *Gossip

	mu      sync.Mutex
	session *session // nil: nothing can be sent
	queues  map[peer.ID]*queue
}

type queue struct {
	frames []waiting
	bytes  int
}

type waiting struct {
	frame []byte
	since time.Time
}

func (o *outbox) open(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = s
	o.queues = make(map[peer.ID]*queue)
}

// close drops what waits. The goroutines end with what they are sending.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = nil
	for _, q := range o.queues {
		o.g.counts.dropped.Add(uint64(len(q.frames)))
	}
	o.queues = nil
}

// put appends a frame to a peer's queue. If that is full its oldest frames go:
// what is newer says more.
func (o *outbox) put(to peer.ID, frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.session
	if s == nil {
		o.g.counts.dropped.Add(1)
		return
	}
	q := o.queues[to]
	if q == nil {
		q = &queue{}
		o.queues[to] = q
		s.senders.Go(func() { o.drain(s, to, q) })
	}
	q.frames = append(q.frames, waiting{frame, time.Now()})
	q.bytes += len(frame)
	for len(q.frames) > maxOutbox || q.bytes > maxOutboxBytes {
		q.pop()
		o.g.counts.dropped.Add(1)
	}
}

func (q *queue) pop() waiting {
	w := q.frames[0]
	q.frames = slices.Delete(q.frames, 0, 1)
	q.bytes -= len(w.frame)
	return w
}

// take returns what is to be sent next. The queue is gone if there is nothing.
func (o *outbox) take(s *session, to peer.ID, q *queue) (waiting, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != s {
		return waiting{}, false
	}
	if len(q.frames) == 0 {
		delete(o.queues, to)
		return waiting{}, false
	}
	return q.pop(), true
}

// drain sends what is in a queue, until it is empty.
func (o *outbox) drain(s *session, to peer.ID, q *queue) {
	for {
		w, ok := o.take(s, to, q)
		if !ok {
			return
		}
		addr, known := o.g.table.addr(to)
		if !known || time.Since(w.since) > maxWait {
			o.g.counts.dropped.Add(1)
			continue
		}
		// Only name and address are read, and memberlist may have forgotten the peer.
		node := &memberlist.Node{Name: memberName(to), Addr: net.IP(addr.Addr().AsSlice()), Port: addr.Port()}
		if err := s.list.SendReliable(node, w.frame); err != nil {
			o.g.counts.failed.Add(1)
			continue
		}
		o.g.counts.sent.Add(1)
	}
}
