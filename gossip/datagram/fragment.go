package datagram

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// fragment is a part of a message that is longer than one datagram, but not much: a stream would cost a connection, and a
// second when it loses a packet.
type fragment struct {
	from    peer.ID
	message uint64
	number  int // 1 to of
	of      int // 2 to maxFragments
	bytes   []byte
}

// Limits of messages of which not all fragments have come.
const (
	maxReassemblies    = 256            // of all senders
	maxReassembliesOne = maxInFlight    // of one sender
	reassemblyTTL      = 2 * messageTTL // from the first fragment; the sender drops the message after one
)

// fragment writes the fragment of a number.
func (m *message) fragment(self peer.ID, number int) []byte {
	rest := m.body[messageHeader+(number-1)*fragmentSize:]
	rest = rest[:min(len(rest), fragmentSize)]
	b := append(make([]byte, 0, fragmentHeader+len(rest)), kindFragment)
	b = append(b, self[:]...)
	b = binary.BigEndian.AppendUint64(b, m.id)
	b = append(b, byte(number), byte(len(m.attempts)))
	return append(b, rest...)
}

// readFragment reads a fragment, which shares memory with b.
func readFragment(b []byte) (f fragment, ok bool) {
	if len(b) <= fragmentHeader || len(b) > MaxSize {
		return fragment{}, false
	}
	const at = 1 + len(peer.ID{})
	f = fragment{
		from: peer.ID(b[1:at]), message: binary.BigEndian.Uint64(b[at:]),
		number: int(b[at+8]), of: int(b[at+9]), bytes: b[fragmentHeader:],
	}
	return f, f.of >= 2 && f.of <= maxFragments && f.number >= 1 && f.number <= f.of
}

// reassembly has the messages of which some fragments have come. Those that are too old go when the next one comes, the
// oldest if there are too many. Safe for concurrent use.
type reassembly struct {
	mu   sync.Mutex
	list []*partial // the oldest first
}

// partial is one of them.
type partial struct {
	from      peer.ID
	message   uint64
	begun     time.Time
	fragments [][]byte // by number less 1; nil: not there
	missing   int
}

// add takes a fragment, and returns what follows the ID of its message if that is whole now. It refuses a fragment that
// contradicts another of its message. Of two that have one number the first stays.
func (r *reassembly) add(f fragment, now time.Time) (whole []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(have *partial) bool { return now.Sub(have.begun) > reassemblyTTL })
	i := slices.IndexFunc(r.list, func(have *partial) bool { return have.message == f.message && have.from == f.from })
	if i < 0 {
		r.makeRoom(f.from)
		i = len(r.list)
		r.list = append(r.list, &partial{from: f.from, message: f.message, begun: now, fragments: make([][]byte, f.of), missing: f.of})
	}
	have := r.list[i]
	switch {
	case f.of != len(have.fragments):
		return nil, false
	case have.fragments[f.number-1] != nil:
		return nil, true
	}
	have.fragments[f.number-1] = bytes.Clone(f.bytes)
	if have.missing--; have.missing > 0 {
		return nil, true
	}
	r.list = slices.Delete(r.list, i, i+1)
	return bytes.Join(have.fragments, nil), true
}

// makeRoom makes room for one more message of a sender.
func (r *reassembly) makeRoom(from peer.ID) {
	of, oldest := 0, 0
	for i, have := range slices.Backward(r.list) {
		if have.from == from {
			of, oldest = of+1, i
		}
	}
	switch {
	case of >= maxReassembliesOne:
		r.list = slices.Delete(r.list, oldest, oldest+1)
	case len(r.list) >= maxReassemblies:
		r.list = slices.Delete(r.list, 0, 1)
	}
}
