package datagram

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// message is some frames on their way to one peer.
type message struct {
	id     uint64
	body   []byte
	frames uint64    // how many
	queued time.Time // when

	behind   *message   // the message before it, that was sent together with it; nil: none
	done     bool       // nothing has to wait for it any more
	attempts []attempt  // of its datagrams: one for each fragment, none if it only goes over a stream
	one      [1]attempt // what attempts is of most messages
	stream   streamState
	sent     bool // the network has taken it, once or more often
}

// attempt is how far a datagram has come.
type attempt struct {
	times int       // how often it was sent
	last  time.Time // when that was
	again time.Time // when it is due; zero: at once
	acked bool      // its ack has come, if it is one of several
}

// streamState is how far a message has come with going over a stream.
type streamState byte

const (
	noStream streamState = iota // it need not
	awaited                     // it shall
	begun                       // it does, or did
	streamed                    // it did
)

// pack puts frames that are sent together into as few messages as keep them in order: as datagrams if they fit, those
// behind a long one with it. A message waits for the ack of the one before, as memberlist delivers last what came first.
func pack(frames [][]byte) []*message {
	var messages []*message
	for _, frame := range frames {
		var last *message
		if len(messages) > 0 {
			last = messages[len(messages)-1]
		}
		size := len(frame) + uvarintLen(len(frame))
		if last == nil || !last.fits(size) {
			last = &message{id: rand.Uint64(), behind: last}
			last.body = append(make([]byte, 0, messageHeader+size), kindMessage)
			last.body = binary.BigEndian.AppendUint64(last.body, last.id)
			messages = append(messages, last)
		}
		last.body = binary.AppendUvarint(last.body, uint64(len(frame)))
		last.body = append(last.body, frame...)
		last.frames++
	}
	for _, m := range messages {
		m.divide()
	}
	return messages
}

// fits reports whether a frame of that size can go with those in the message.
func (m *message) fits(size int) bool {
	if len(m.body) > maxFragmented {
		return len(m.body)+size <= maxBundled
	}
	return len(m.body)+size <= maxFragmented
}

// divide decides what the message goes as.
func (m *message) divide() {
	switch {
	case len(m.body) <= MaxSize:
		m.attempts = m.one[:]
	case len(m.body) <= maxFragmented:
		m.attempts = make([]attempt, (len(m.body)-messageHeader+fragmentSize-1)/fragmentSize)
	default:
		m.streamOnly()
	}
}

// streamOnly has the message go over a stream alone.
func (m *message) streamOnly() { m.attempts, m.body[0], m.stream = nil, kindStream, awaited }

// long reports whether the message only goes over a stream.
func (m *message) long() bool { return len(m.attempts) == 0 }

// fragmented reports whether the message goes as several datagrams.
func (m *message) fragmented() bool { return len(m.attempts) > 1 }

// begun reports whether the message was sent as datagrams.
func (m *message) begun() bool { return !m.long() && m.attempts[0].times > 0 }

// isAckedBy reports whether an ack is for the message, or for a fragment of it.
func (m *message) isAckedBy(id uint64) bool {
	return m.begun() && (id == m.id || m.fragmented() && id-m.id <= uint64(len(m.attempts)))
}

// waits reports whether the message has to wait for the one before.
func (m *message) waits() bool {
	if m.behind != nil && m.behind.done {
		m.behind = nil
	}
	return m.behind != nil
}

// streamBody returns what goes over a stream.
func (m *message) streamBody() []byte {
	if m.body[0] == kindStream {
		return m.body
	}
	b := slices.Clone(m.body)
	b[0] = kindStream
	return b
}

func uvarintLen(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// unpack reads a message. The frames share memory with b.
func (e *Endpoint) unpack(b []byte) (id uint64, frames [][]byte, ok bool) {
	if len(b) < messageHeader || len(b) > messageHeader+max(maxBundled, binary.MaxVarintLen32+e.cfg.MaxFrame) {
		return 0, nil, false
	}
	frames, ok = split(b[messageHeader:], e.cfg.MinFrame)
	return binary.BigEndian.Uint64(b[1:]), frames, ok
}

// split returns what is in bytes, each behind its length, if that is something and each has least bytes or more. It
// shares memory with them.
func split(rest []byte, least int) (all [][]byte, ok bool) {
	for len(rest) > 0 {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) || n < uint64(least) {
			return nil, false
		}
		end := used + int(n)
		all = append(all, rest[used:end:end])
		rest = rest[end:]
	}
	return all, len(all) > 0
}

// ack writes an ack for at most [maxAcks] IDs.
func ack(self peer.ID, ids []uint64) []byte {
	b := append([]byte{kindAck}, self[:]...)
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	return b
}

func readAck(b []byte) (from peer.ID, ids []uint64, ok bool) {
	if len(b) < ackHeader || len(b) > MaxSize || (len(b)-ackHeader)%8 != 0 {
		return peer.None, nil, false
	}
	for rest := b[ackHeader:]; len(rest) > 0; rest = rest[8:] {
		ids = append(ids, binary.BigEndian.Uint64(rest))
	}
	return peer.ID(b[1:ackHeader]), ids, len(ids) > 0
}

// Bundle puts datagrams into one, for [Endpoint.Receive]. Each needs up to 2 bytes more than it has, and the bundle 1.
func Bundle(all ...[]byte) []byte {
	b := []byte{kindBundle}
	for _, one := range all {
		b = binary.AppendUvarint(b, uint64(len(one)))
		b = append(b, one...)
	}
	return b
}

// unbundle returns the datagrams of a bundle, none of which is empty or a bundle. They share memory with b.
func unbundle(b []byte) (all [][]byte, ok bool) {
	if len(b) > MaxSize {
		return nil, false
	}
	return split(b[1:], 1)
}

// maxSeen is how many messages are remembered as received: some seconds' worth of a busy peer's, while a message is
// retransmitted for one.
const maxSeen = 4096

// seen tells messages that have come already. Safe for concurrent use.
type seen struct {
	mu    sync.Mutex
	ids   map[uint64]struct{}
	order []uint64 // a ring
	next  int
}

// has reports whether the message has come.
func (s *seen) has(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, have := s.ids[id]
	return have
}

// add reports whether the message is new.
func (s *seen) add(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, have := s.ids[id]; have {
		return false
	}
	if s.ids == nil {
		s.ids = make(map[uint64]struct{})
	}
	s.ids[id] = struct{}{}
	if len(s.order) < maxSeen {
		s.order = append(s.order, id)
		return true
	}
	delete(s.ids, s.order[s.next])
	s.order[s.next] = id
	s.next = (s.next + 1) % maxSeen
	return true
}
