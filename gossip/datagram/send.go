package datagram

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A message goes over a stream as well once one of its datagrams was sent streamTries times, or it is streamAfter old, and
// no ack has come.
const (
	streamTries = 3
	streamAfter = messageTTL / 2
)

// outgoing is something to be sent now.
type outgoing struct {
	to      peer.ID
	queue   *peerQueue // nil for acks
	message *message   // nil for acks
	body    []byte
	stream  bool
}

// due returns what is to be sent now, and when to ask again; zero if nothing waits.
func (e *Endpoint) due(now time.Time) (due []outgoing, again time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	soon := func(at time.Time) {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	for to, q := range e.queues {
		q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return now.Sub(m.queued) >= messageTTL && e.drop(q, m) })
		from := len(due)
		for _, m := range q.messages {
			due = e.datagramsDue(due, to, q, m, now)
			soon(m.queued.Add(messageTTL))
			for i := range m.attempts {
				if a := &m.attempts[i]; !a.acked && now.Before(a.again) {
					soon(a.again)
				}
			}
		}
		e.bundleAcks(due[from:], to)
		for _, m := range slices.Backward(slices.Clone(q.messages)) { // the newest says most
			if m.stream == awaited && q.mayStartStream(m) {
				q.startStream(m)
				due = append(due, outgoing{to: to, queue: q, message: m, body: m.streamBody(), stream: true})
			}
		}
		if len(q.messages) == 0 && q.open == 0 {
			delete(e.queues, to)
		}
	}
	for to, w := range e.pendingAcks {
		if now.Before(w.due) {
			soon(w.due)
			continue
		}
		for some := range slices.Chunk(w.ids, maxAcks) {
			due = append(due, outgoing{to: to, body: ack(e.cfg.Self, some)})
		}
		delete(e.pendingAcks, to)
	}
	return due, again
}

// bundleAcks bundles the acks for a peer with datagrams that are sent to it, as far as there is room.
func (e *Endpoint) bundleAcks(with []outgoing, to peer.ID) {
	w := e.pendingAcks[to]
	for i := 0; w != nil && i < len(with); i++ {
		o := &with[i]
		n := min((MaxSize-bundleHeader-ackHeader-len(o.body))/8, len(w.ids))
		if n <= 0 {
			continue
		}
		o.body = Bundle(ack(e.cfg.Self, w.ids[:n]), o.body)
		if w.ids = w.ids[n:]; len(w.ids) == 0 {
			delete(e.pendingAcks, to)
			w = nil
		}
	}
}

// datagramsDue adds the datagrams of a message that are to be sent now.
func (e *Endpoint) datagramsDue(due []outgoing, to peer.ID, q *peerQueue, m *message, now time.Time) []outgoing {
	if m.waits() {
		return due
	}
	if m.fragmented() && !m.begun() && q.inFlight()+len(m.attempts) > maxInFlight {
		m.streamOnly()
	}
	repeated := false
	for i := range m.attempts {
		if !q.datagramDue(m, i, now) {
			continue
		}
		body := m.body
		if m.fragmented() {
			body = m.fragment(e.cfg.Self, i+1)
		}
		due = append(due, outgoing{to: to, queue: q, message: m, body: body})
		repeated = repeated || m.attempts[i].times > 1
	}
	if repeated {
		e.counts.repeated.Add(m.frames)
	}
	return due
}

// inFlight returns how many fragments are in flight.
func (q *peerQueue) inFlight() (n int) {
	for _, m := range q.messages {
		if m.fragmented() && m.begun() {
			n += len(m.attempts)
		}
	}
	return n
}

// datagramDue reports whether one of the datagrams of a message is to be sent now, and notes that it was. To a peer that no
// datagram reaches, one of each message is enough to see whether that has changed.
func (q *peerQueue) datagramDue(m *message, i int, now time.Time) bool {
	a := &m.attempts[i]
	if a.acked || now.Before(a.again) {
		return false
	}
	a.times++
	a.last = now
	a.again = now.Add(q.rto(a.times))
	late := a.times > streamTries || now.Sub(m.queued) >= streamAfter
	if m.stream == noStream && (late || q.datagramsFail >= failAfter) {
		m.stream = awaited
		if late {
			q.datagramsFail++
		}
	}
	return q.datagramsFail < failAfter || a.times == 1 && i == 0
}

// mayStartStream reports whether a stream with that message may be opened now.
func (q *peerQueue) mayStartStream(m *message) bool {
	switch {
	case m.waits():
		return false
	case len(m.body) > longMessage:
		return q.longStreams == 0
	}
	return q.open-q.longStreams < q.streams()
}

// startStream counts the stream. A message that only goes over a stream leaves the queue.
func (q *peerQueue) startStream(m *message) {
	m.stream, m.done = begun, true
	q.count(m, 1)
	if m.long() {
		i := slices.Index(q.messages, m)
		q.messages = slices.Delete(q.messages, i, i+1)
	}
}

// count counts a stream with that message.
func (q *peerQueue) count(m *message, n int) {
	q.open += n
	if len(m.body) > longMessage {
		q.longStreams += n
	}
}

// datagramSent notes whether the network took a datagram.
func (e *Endpoint) datagramSent(o outgoing, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case ok:
		e.noteSent(o.message)
	case o.message.stream == noStream:
		o.message.stream = awaited
		wake.Up(e.wake)
	}
}

// streamSent notes that a stream has ended, and whether the network took what was sent over it.
func (e *Endpoint) streamSent(o outgoing, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, m := o.queue, o.message
	q.streamsFail = !ok
	q.count(m, -1)
	if m.long() {
		q.bytes -= len(m.body)
	}
	switch {
	case ok:
		m.stream = streamed
		e.noteSent(m)
	case m.long():
		e.counts.failed.Add(m.frames)
	}
	wake.Up(e.wake)
}

// noteSent counts what the network took, once.
func (e *Endpoint) noteSent(m *message) {
	if !m.sent {
		m.sent = true
		e.counts.sent.Add(m.frames)
	}
}
