package gossip

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

// frameOf returns what looks like a frame of that length.
func frameOf(size int, mark byte) []byte {
	f := bytes.Repeat([]byte{mark}, size)
	f[0] = frameVersion
	return f
}

func TestPack(t *testing.T) {
	const header = parcelHeader
	for _, tt := range []struct {
		name   string
		frames []int // lengths
		want   []int // frames in each parcel
		posts  []int // datagrams of each parcel, 0 for a stream
	}{
		{"one", []int{100}, []int{1}, []int{1}},
		{"three that fit together", []int{100, 200, 300}, []int{3}, []int{1}},
		{"the longest datagram", []int{maxDatagram - header - 2}, []int{1}, []int{1}},
		{"a byte more", []int{maxDatagram - header - 1}, []int{1}, []int{2}},
		{"the longest broadcast", []int{MaxBroadcast}, []int{1}, []int{1}},
		{"two in two pieces", []int{700, 700}, []int{2}, []int{2}},
		{"two pieces that are full", []int{2*pieceSize - 2}, []int{1}, []int{2}},
		{"a byte in the third", []int{2*pieceSize - 1}, []int{1}, []int{3}},
		{"short ones beside a longer one", []int{100, 5000, 100, 100}, []int{4}, []int{5}},
		{"the longest in pieces", []int{maxPieced - header - 3}, []int{1}, []int{maxPieces}},
		{"a byte more than that", []int{maxPieced - header - 2}, []int{1}, []int{0}},
		{"short ones beside a long one", []int{100, maxPieced, 100, 100}, []int{1, 3}, []int{1, 0}},
		{"as much as goes together", []int{maxTogether - 100, 50, 50}, []int{2, 1}, []int{0, 1}},
		{"the longest", []int{MaxFrame, MaxFrame}, []int{1, 1}, []int{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var frames [][]byte
			for i, size := range tt.frames {
				frames = append(frames, frameOf(size, byte(i)))
			}
			var got [][]byte
			parcels := pack(frames)
			if len(parcels) != len(tt.want) {
				t.Fatalf("got %d parcels, want %d", len(parcels), len(tt.want))
			}
			for i, p := range parcels {
				id, in, ok := unpack(p.body)
				if !ok || id != p.id || len(in) != tt.want[i] || p.frames != uint64(len(in)) {
					t.Errorf("parcel %d: got ID %x, %d frames, %v, want ID %x, %d frames", i, id, len(in), ok, p.id, tt.want[i])
				}
				if len(p.posts) != tt.posts[i] || (p.body[0] == kindStream) != p.long() || p.streamBody()[0] != kindStream {
					t.Errorf("parcel %d: got kind %x, %d datagrams", i, p.body[0], len(p.posts))
				}
				for n := range p.posts {
					if p.inPieces() && len(p.piece(peer.ID{1}, n+1)) > maxDatagram {
						t.Errorf("parcel %d: piece %d is too long", i, n+1)
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

func TestReceipt(t *testing.T) {
	ids := make([]uint64, maxReceipts)
	for i := range ids {
		ids[i] = rand.Uint64()
	}
	b := receipt(peer.ID{7}, ids)
	if len(b) > maxDatagram {
		t.Errorf("the longest receipt has %d bytes, the most is %d", len(b), maxDatagram)
	}
	from, got, ok := readReceipt(b)
	if !ok || from != (peer.ID{7}) || !slices.Equal(got, ids) {
		t.Errorf("got %v from %v, %v", got, from, ok)
	}
	for _, bad := range [][]byte{b[:1], b[:receiptHeader], b[:receiptHeader+7], append(slices.Clone(b), ids2bytes(1)...)} {
		if _, _, ok := readReceipt(bad); ok {
			t.Errorf("a receipt of %d bytes was read", len(bad))
		}
	}
}

func ids2bytes(n int) []byte { return make([]byte, 8*n) }

func TestSeen(t *testing.T) {
	var s seen
	for id := range uint64(3 * maxSeen) {
		if !s.add(id) {
			t.Fatalf("parcel %d is taken for an old one", id)
		}
		if s.add(id) {
			t.Fatalf("parcel %d is new twice", id)
		}
		if back := id - min(id, maxSeen-1); s.add(back) {
			t.Fatalf("after parcel %d, %d is forgotten", id, back)
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
	f.Add(receipt(peer.ID{1}, []uint64{1, 2}))
	f.Add([]byte{kindDatagram, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // the kind has been read
		}
		_, _, _ = readReceipt(b)
		_, frames, ok := unpack(b)
		if !ok {
			return
		}
		var again [][]byte
		for _, p := range pack(frames) {
			_, some, ok := unpack(p.body)
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
