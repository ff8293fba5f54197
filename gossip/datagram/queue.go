package datagram

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Limits of what is queued for one peer.
const (
	maxQueued      = 256      // messages
	maxQueuedBytes = 32 << 20 // two of the longest
	maxPendingAcks = maxQueued
	// maxStreams is how many streams to a peer are open at a time, beside one for a message of more than longMessage
	// bytes: over a slow link several of those would all end at their deadline.
	maxStreams  = 4
	longMessage = 64 << 10
	// messageTTL is how long a message is retransmitted. By then the sender's protocol has timed out and asked again.
	messageTTL = time.Second
	// maxInFlight is how many fragments are in flight at a time. A message with which there would be more goes over a
	// stream, which slows down where the network does not keep up: the kernel of the receiver keeps some 200 packets, of
	// all peers together.
	maxInFlight = 32
	// ackDelay is how long an ack waits for a datagram to that peer, mostly an answer, to be bundled with; and the ack for
	// a fragment for that of the whole message, which replaces it. It is far below minRTO.
	ackDelay = 10 * time.Millisecond
)

// pendingAcks are acks that wait to be sent to one peer.
type pendingAcks struct {
	ids []uint64
	due time.Time
}

// peerQueue is what is queued for one peer.
type peerQueue struct {
	*path
	messages    []*message // in the order in which they came
	bytes       int        // of messages and streams
	open        int        // streams
	longStreams int        // those of them that do not count for maxStreams
}

// Send queues frames for a peer. They arrive together and in order, or, if they are many, in parts. If too much is queued
// for that peer the oldest goes: what is newer says more. Send does not block. The frames must not be changed after.
func (e *Endpoint) Send(to peer.ID, frames ...[]byte) {
	messages := pack(frames) // before the lock is held, since frames may be long
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.network == nil {
		e.counts.dropped.Add(uint64(len(frames)))
		return
	}
	q, now := e.queue(to), time.Now() // on a busy host long frames take most of a message's life to pack
	for _, m := range messages {
		m.queued = now
		q.messages = append(q.messages, m)
		q.bytes += len(m.body)
	}
	for len(q.messages) > maxQueued || q.bytes > maxQueuedBytes && len(q.messages) > 0 {
		e.drop(q, q.messages[0])
		q.messages = slices.Delete(q.messages, 0, 1)
	}
	wake.Up(e.wake)
}

// queue returns the queue of a peer. It is called with the lock held.
func (e *Endpoint) queue(to peer.ID) *peerQueue {
	q := e.queues[to]
	if q == nil {
		p := e.paths[to]
		if p == nil {
			p = &path{}
			e.paths[to] = p
		}
		q = &peerQueue{path: p}
		e.queues[to] = q
	}
	return q
}

// drop drops a message, which its queue forgets. It returns true.
func (e *Endpoint) drop(q *peerQueue, m *message) bool {
	m.done = true
	q.bytes -= len(m.body)
	switch {
	case !m.sent:
		e.counts.dropped.Add(m.frames)
	case m.stream != streamed:
		e.counts.unconfirmed.Add(m.frames)
	}
	return true
}

// scheduleAck has an ack sent soon: for a message of so many fragments that came from a peer, or for one fragment.
func (e *Endpoint) scheduleAck(to peer.ID, id uint64, fragments int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.network == nil {
		return
	}
	w := e.pendingAcks[to]
	if w == nil {
		w = &pendingAcks{due: now.Add(ackDelay)}
		e.pendingAcks[to] = w
		wake.Up(e.wake)
	}
	w.ids = slices.DeleteFunc(w.ids, func(other uint64) bool { return other-id <= uint64(fragments) })
	if len(w.ids) < maxPendingAcks {
		w.ids = append(w.ids, id)
	}
}

// acked notes the ack for a message, or for a fragment of one.
func (e *Endpoint) acked(from peer.ID, id uint64, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[from]
	if q == nil {
		return
	}
	i := slices.IndexFunc(q.messages, func(m *message) bool { return m.isAckedBy(id) })
	if i < 0 {
		return
	}
	m := q.messages[i]
	if n := id - m.id; n > 0 {
		a := &m.attempts[n-1]
		q.acked(now.Sub(a.last), a.times == 1)
		a.acked = true
		if m.stream == noStream && !slices.ContainsFunc(m.attempts, func(a attempt) bool { return !a.acked }) {
			m.stream = awaited // the receiver had all fragments, but not at one time
			wake.Up(e.wake)
		}
		return
	}
	q.acked(now.Sub(m.attempts[0].last), !slices.ContainsFunc(m.attempts, func(a attempt) bool { return a.times != 1 }))
	m.done = true
	q.bytes -= len(m.body)
	q.messages = slices.Delete(q.messages, i, i+1)
	if slices.ContainsFunc(q.messages, func(next *message) bool { return next.behind == m }) {
		wake.Up(e.wake)
	}
}
