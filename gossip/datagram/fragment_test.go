package datagram

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// fragmentsOf is a message in fragments, from a peer.
func fragmentsOf(t testing.TB, from peer.ID, size int, mark byte) (fragments []fragment, body []byte) {
	t.Helper()
	messages := pack([][]byte{frameOf(size, mark)})
	if len(messages) != 1 || !messages[0].fragmented() {
		t.Fatalf("%d bytes do not go in fragments", size)
	}
	for n := range messages[0].attempts {
		p, ok := readFragment(messages[0].fragment(from, n+1))
		if !ok || p.number != n+1 || p.of != len(messages[0].attempts) || p.from != from || p.message != messages[0].id {
			t.Fatalf("fragment %d cannot be read", n+1)
		}
		fragments = append(fragments, p)
	}
	return fragments, messages[0].body[messageHeader:]
}

// TestReadFragment reads what nobody sends.
func TestReadFragment(t *testing.T) {
	for _, tt := range []struct {
		number, of byte
		size       int
		want       bool
	}{
		{1, 2, 1, true},
		{maxFragments, maxFragments, fragmentSize, true},
		{1, 2, 0, false},
		{1, 2, fragmentSize + 1, false},
		{0, 2, 1, false},
		{3, 2, 1, false},
		{1, 1, 1, false},
		{1, 0, 1, false},
		{1, maxFragments + 1, 1, false},
		{255, 255, 1, false},
	} {
		b := make([]byte, fragmentHeader+tt.size)
		b[0], b[fragmentHeader-2], b[fragmentHeader-1] = kindFragment, tt.number, tt.of
		if _, ok := readFragment(b); ok != tt.want {
			t.Errorf("number %d of %d with %d bytes: taken %v", tt.number, tt.of, tt.size, ok)
		}
	}
	if _, ok := readFragment([]byte{kindFragment}); ok {
		t.Error("one byte was taken for a fragment")
	}
}

// TestReassembly puts messages together whose fragments come in any order, twice,
// and between those of others, some of which contradict them.
func TestReassembly(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var s reassembly
		var all []fragment
		want := make(map[uint64][]byte)
		for i := range 1 + rnd.IntN(maxReassembliesOne) {
			fragments, body := fragmentsOf(t, peer.ID{1}, MaxSize+rnd.IntN(maxFragmented-MaxSize-messageHeader-3), byte(i))
			want[fragments[0].message] = body
			all = append(all, fragments...)
			liar := fragments[0]
			liar.from, liar.bytes = peer.ID{2}, []byte("other bytes")
			all = append(all, liar)
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		first := make(map[uint64]bool)
		for _, p := range all {
			other := p
			other.of += 1 - 2*rnd.IntN(2)
			other.bytes = []byte("contradicts")
			if first[p.message] && p.from == (peer.ID{1}) && want[p.message] != nil && other.of >= other.number {
				if _, ok := s.add(other, time.Time{}); ok {
					t.Fatalf("seed %d: a message of %d fragments has one of %d", seed, p.of, other.of)
				}
			}
			whole, ok := s.add(p, time.Time{})
			if p.from != (peer.ID{1}) {
				if whole != nil {
					t.Fatalf("seed %d: a message is whole by another's fragment", seed)
				}
				continue
			}
			first[p.message] = true
			switch {
			case !ok:
				t.Fatalf("seed %d: a fragment was refused", seed)
			case whole != nil && !bytes.Equal(whole, want[p.message]):
				t.Fatalf("seed %d: what comes out is not what was put in", seed)
			case whole != nil:
				delete(want, p.message)
			default:
				again := p
				again.bytes = []byte("comes second")
				if whole, ok = s.add(again, time.Time{}); whole != nil || !ok {
					t.Fatalf("seed %d: a fragment that came twice: whole %v, taken %v", seed, whole != nil, ok)
				}
			}
		}
		if len(want) > 0 {
			t.Errorf("seed %d: %d messages are not whole", seed, len(want))
		}
	}
}

// TestReassemblyIsBounded brings beginnings of messages of which no more comes.
func TestReassemblyIsBounded(t *testing.T) {
	var s reassembly
	now := time.Now()
	begin := func(from, n int) fragment {
		p := fragment{message: uint64(n), number: 1, of: 2, bytes: []byte{1}}
		binary.BigEndian.PutUint64(p.from[:], uint64(from))
		return p
	}
	end := func(from, n int) bool {
		p := begin(from, n)
		p.number = 2
		whole, ok := s.add(p, now)
		return ok && whole != nil
	}
	s.add(begin(1, 0), now)
	for n := range 3 * maxReassembliesOne {
		s.add(begin(2, n), now)
	}
	if len(s.list) != 1+maxReassembliesOne {
		t.Errorf("%d are kept, want one of one peer and %d of another", len(s.list), maxReassembliesOne)
	}
	if !end(1, 0) || !end(2, 3*maxReassembliesOne-1) || !end(2, 2*maxReassembliesOne) || end(2, 2*maxReassembliesOne-1) {
		t.Error("it is not the oldest of the peer with too many that is lost")
	}
	for from := range 3 * maxReassemblies {
		s.add(begin(from+10, from), now)
	}
	if len(s.list) != maxReassemblies {
		t.Errorf("%d are kept of %d peers, want %d", len(s.list), 3*maxReassemblies, maxReassemblies)
	}
	now = now.Add(reassemblyTTL)
	if !end(3*maxReassemblies+9, 3*maxReassemblies-1) {
		t.Error("one was lost before its time")
	}
	now = now.Add(1)
	if end(3*maxReassemblies+8, 3*maxReassemblies-2) || len(s.list) != 1 {
		t.Errorf("%d are kept that are too old", len(s.list)-1)
	}
}

// TestFragmentAfterMessage has a message come over a stream while its fragments do, and a fragment once more after.
func TestFragmentAfterMessage(t *testing.T) {
	r := newReceiver()
	m := pack([][]byte{frameOf(2000, 1)})[0]
	from := peer.ID{3}
	r.bring(m.fragment(from, 1))
	r.bring(m.streamBody())
	r.bring(m.fragment(from, 2))
	r.bring(m.fragment(from, 1))
	if len(r.frames) != 1 {
		t.Errorf("it has arrived %d times", len(r.frames))
	}
	due, _ := r.due(time.Now().Add(ackDelay))
	if len(due) != 1 || due[0].to != from || !bytes.Equal(due[0].body, ack(r.cfg.Self, []uint64{m.id})) {
		t.Errorf("%d acks, want one for all of it", len(due))
	}
	if got := r.Counts().Duplicate; got != 0 {
		t.Errorf("%d frames were doubled, of which none came whole", got)
	}
}
