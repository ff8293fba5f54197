package datagram

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

func TestPack(t *testing.T) {
	const header = messageHeader
	for _, tt := range []struct {
		name     string
		frames   []int // lengths
		want     []int // frames in each message
		attempts []int // datagrams of each message, 0 for a stream
	}{
		{"one", []int{100}, []int{1}, []int{1}},
		{"three that fit together", []int{100, 200, 300}, []int{3}, []int{1}},
		{"the longest datagram", []int{MaxSize - header - 2}, []int{1}, []int{1}},
		{"a byte more", []int{MaxSize - header - 1}, []int{1}, []int{2}},
		{"the longest broadcast", []int{1100}, []int{1}, []int{1}},
		{"two in two fragments", []int{700, 700}, []int{2}, []int{2}},
		{"two fragments that are full", []int{2*fragmentSize - 2}, []int{1}, []int{2}},
		{"a byte in the third", []int{2*fragmentSize - 1}, []int{1}, []int{3}},
		{"short ones beside a longer one", []int{100, 5000, 100, 100}, []int{4}, []int{5}},
		{"the longest in fragments", []int{maxFragmented - header - 3}, []int{1}, []int{maxFragments}},
		{"a byte more than that", []int{maxFragmented - header - 2}, []int{1}, []int{0}},
		{"short ones beside a long one", []int{100, maxFragmented, 100, 100}, []int{1, 3}, []int{1, 0}},
		{"as much as goes together", []int{maxBundled - 100, 50, 50}, []int{2, 1}, []int{0, 1}},
		{"the longest", []int{maxFrame, maxFrame}, []int{1, 1}, []int{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var frames [][]byte
			for i, size := range tt.frames {
				frames = append(frames, frameOf(size, byte(i)))
			}
			var got [][]byte
			messages := pack(frames)
			if len(messages) != len(tt.want) {
				t.Fatalf("got %d messages, want %d", len(messages), len(tt.want))
			}
			for i, p := range messages {
				id, in, ok := unpackAny(p.body)
				if !ok || id != p.id || len(in) != tt.want[i] || p.frames != uint64(len(in)) {
					t.Errorf("message %d: got ID %x, %d frames, %v, want ID %x, %d frames", i, id, len(in), ok, p.id, tt.want[i])
				}
				if len(p.attempts) != tt.attempts[i] || (p.body[0] == kindStream) != p.long() || p.streamBody()[0] != kindStream {
					t.Errorf("message %d: got kind %x, %d datagrams", i, p.body[0], len(p.attempts))
				}
				for n := range p.attempts {
					if p.fragmented() && len(p.fragment(peer.ID{1}, n+1)) > MaxSize {
						t.Errorf("message %d: fragment %d is too long", i, n+1)
					}
				}
				got = append(got, in...)
			}
			if !slices.EqualFunc(got, frames, bytes.Equal) {
				t.Error("what comes out is not what was put in")
			}
		})
	}
}

func TestAck(t *testing.T) {
	ids := make([]uint64, maxAcks)
	for i := range ids {
		ids[i] = rand.Uint64()
	}
	b := ack(peer.ID{7}, ids)
	if len(b) > MaxSize {
		t.Errorf("the longest ack has %d bytes, the most is %d", len(b), MaxSize)
	}
	from, got, ok := readAck(b)
	if !ok || from != (peer.ID{7}) || !slices.Equal(got, ids) {
		t.Errorf("got %v from %v, %v", got, from, ok)
	}
	for _, bad := range [][]byte{b[:1], b[:ackHeader], b[:ackHeader+7], append(slices.Clone(b), ids2bytes(1)...)} {
		if _, _, ok := readAck(bad); ok {
			t.Errorf("an ack of %d bytes was read", len(bad))
		}
	}
}

func ids2bytes(n int) []byte { return make([]byte, 8*n) }

func TestSeen(t *testing.T) {
	var s seen
	for id := range uint64(3 * maxSeen) {
		if !s.add(id) {
			t.Fatalf("message %d is taken for an old one", id)
		}
		if s.add(id) {
			t.Fatalf("message %d is new twice", id)
		}
		if back := id - min(id, maxSeen-1); s.add(back) {
			t.Fatalf("after message %d, %d is forgotten", id, back)
		}
	}
	if len(s.ids) != maxSeen || len(s.order) != maxSeen {
		t.Errorf("%d are remembered, in %d places", len(s.ids), len(s.order))
	}
}

// FuzzUnpack reads anything, and writes again what it could read.
func FuzzUnpack(f *testing.F) {
	f.Add(pack([][]byte{frameOf(40, 1)})[0].body)
	f.Add(pack([][]byte{frameOf(40, 1), frameOf(2000, 2), frameOf(50, 3)})[0].body)
	f.Add(ack(peer.ID{1}, []uint64{1, 2}))
	f.Add([]byte{kindMessage, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // the kind has been read
		}
		_, _, _ = readAck(b)
		_, frames, ok := unpackAny(b)
		if !ok {
			return
		}
		var again [][]byte
		for _, p := range pack(frames) {
			_, some, ok := unpackAny(p.body)
			if !ok {
				t.Fatal("what was packed cannot be read")
			}
			again = append(again, some...)
		}
		if !slices.EqualFunc(again, frames, bytes.Equal) {
			t.Errorf("got %d frames, want %d", len(again), len(frames))
		}
	})
}

// unpackAny is Endpoint.unpack.
func unpackAny(b []byte) (uint64, [][]byte, bool) { return New(config(peer.ID{9}, nil)).unpack(b) }
