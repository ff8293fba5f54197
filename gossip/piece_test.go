package gossip

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// piecesOf is a parcel in pieces, from a peer.
func piecesOf(t testing.TB, from peer.ID, size int, mark byte) (pieces []piece, body []byte) {
	t.Helper()
	parcels := pack([][]byte{frameOf(size, mark)})
	if len(parcels) != 1 || !parcels[0].inPieces() {
		t.Fatalf("%d bytes do not go in pieces", size)
	}
	for n := range parcels[0].posts {
		p, ok := readPiece(parcels[0].piece(from, n+1))
		if !ok || p.number != n+1 || p.of != len(parcels[0].posts) || p.from != from || p.parcel != parcels[0].id {
			t.Fatalf("piece %d cannot be read", n+1)
		}
		pieces = append(pieces, p)
	}
	return pieces, parcels[0].body[parcelHeader:]
}

// TestReadPiece reads what nobody sends.
func TestReadPiece(t *testing.T) {
	for _, tt := range []struct {
		number, of byte
		size       int
		want       bool
	}{
		{1, 2, 1, true},
		{maxPieces, maxPieces, pieceSize, true},
		{1, 2, 0, false},
		{1, 2, pieceSize + 1, false},
		{0, 2, 1, false},
		{3, 2, 1, false},
		{1, 1, 1, false},
		{1, 0, 1, false},
		{1, maxPieces + 1, 1, false},
		{255, 255, 1, false},
	} {
		b := make([]byte, pieceHeader+tt.size)
		b[0], b[pieceHeader-2], b[pieceHeader-1] = kindPiece, tt.number, tt.of
		if _, ok := readPiece(b); ok != tt.want {
			t.Errorf("number %d of %d with %d bytes: taken %v", tt.number, tt.of, tt.size, ok)
		}
	}
	if _, ok := readPiece([]byte{kindPiece}); ok {
		t.Error("one byte was taken for a piece")
	}
}

// TestPartials puts parcels together whose pieces come in any order, twice,
// and between those of others, some of which contradict them.
func TestPartials(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var s partials
		var all []piece
		want := make(map[uint64][]byte)
		for i := range 1 + rnd.IntN(maxPartialEach) {
			pieces, body := piecesOf(t, peer.ID{1}, maxDatagram+rnd.IntN(maxPieced-maxDatagram-parcelHeader-3), byte(i))
			want[pieces[0].parcel] = body
			all = append(all, pieces...)
			liar := pieces[0]
			liar.from, liar.bytes = peer.ID{2}, []byte("other bytes")
			all = append(all, liar)
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		first := make(map[uint64]bool)
		for _, p := range all {
			other := p
			other.of += 1 - 2*rnd.IntN(2)
			other.bytes = []byte("contradicts")
			if first[p.parcel] && p.from == (peer.ID{1}) && want[p.parcel] != nil && other.of >= other.number {
				if _, ok := s.add(other, time.Time{}); ok {
					t.Fatalf("seed %d: a parcel of %d pieces has one of %d", seed, p.of, other.of)
				}
			}
			whole, ok := s.add(p, time.Time{})
			if p.from != (peer.ID{1}) {
				if whole != nil {
					t.Fatalf("seed %d: a parcel is whole by another's piece", seed)
				}
				continue
			}
			first[p.parcel] = true
			switch {
			case !ok:
				t.Fatalf("seed %d: a piece was refused", seed)
			case whole != nil && !bytes.Equal(whole, want[p.parcel]):
				t.Fatalf("seed %d: what comes out is not what was put in", seed)
			case whole != nil:
				delete(want, p.parcel)
			default:
				again := p
				again.bytes = []byte("comes second")
				if whole, ok = s.add(again, time.Time{}); whole != nil || !ok {
					t.Fatalf("seed %d: a piece that came twice: whole %v, taken %v", seed, whole != nil, ok)
				}
			}
		}
		if len(want) > 0 {
			t.Errorf("seed %d: %d parcels are not whole", seed, len(want))
		}
	}
}

// TestPartialsAreBounded brings beginnings of parcels of which no more comes.
func TestPartialsAreBounded(t *testing.T) {
	var s partials
	now := time.Now()
	begin := func(from, n int) piece {
		p := piece{parcel: uint64(n), number: 1, of: 2, bytes: []byte{1}}
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
	for n := range 3 * maxPartialEach {
		s.add(begin(2, n), now)
	}
	if len(s.list) != 1+maxPartialEach {
		t.Errorf("%d are kept, want one of one peer and %d of another", len(s.list), maxPartialEach)
	}
	if !end(1, 0) || !end(2, 3*maxPartialEach-1) || !end(2, 2*maxPartialEach) || end(2, 2*maxPartialEach-1) {
		t.Error("it is not the oldest of the peer with too many that is lost")
	}
	for from := range 3 * maxPartial {
		s.add(begin(from+10, from), now)
	}
	if len(s.list) != maxPartial {
		t.Errorf("%d are kept of %d peers, want %d", len(s.list), 3*maxPartial, maxPartial)
	}
	now = now.Add(partialLife)
	if !end(3*maxPartial+9, 3*maxPartial-1) {
		t.Error("one was lost before its time")
	}
	now = now.Add(1)
	if end(3*maxPartial+8, 3*maxPartial-2) || len(s.list) != 1 {
		t.Errorf("%d are kept that are too old", len(s.list)-1)
	}
}

// TestPieceAfterAll has a parcel come over a stream while its pieces do, and a
// piece once more after.
func TestPieceAfterAll(t *testing.T) {
	d := newReceiver(t)
	p := pack([][]byte{frameOf(2000, 1)})[0]
	from := peer.ID{3}
	d.NotifyMsg(p.piece(from, 1))
	d.NotifyMsg(p.streamBody())
	d.NotifyMsg(p.piece(from, 2))
	d.NotifyMsg(p.piece(from, 1))
	if _, ok := d.g.inbox.frames.take(); !ok {
		t.Error("nothing has arrived")
	}
	if _, ok := d.g.inbox.frames.take(); ok {
		t.Error("it has arrived twice")
	}
	due, _ := d.g.outbox.due(time.Now().Add(receiptWait))
	if len(due) != 1 || due[0].to != from || !bytes.Equal(due[0].body, receipt(d.g.cfg.ID, []uint64{p.id})) {
		t.Errorf("%d receipts, want one for all of it", len(due))
	}
}

// TestLaterKind brings what only a later release can read, also beside a hint,
// which this one can.
func TestLaterKind(t *testing.T) {
	d := newReceiver(t)
	refused := uint64(0)
	for kind := kindTogether + 1; kind <= 0xff; kind++ {
		b := bytes.Repeat([]byte{7}, 200)
		b[0] = byte(kind)
		d.NotifyMsg(b)
		refused++
	}
	d.NotifyMsg(together(together(pack([][]byte{frameOf(40, 1)})[0].body)))
	refused++
	if _, ok := d.g.inbox.frames.take(); ok {
		t.Error("something was taken for what it is not")
	}
	hint := frameOf(200, 1)
	d.NotifyMsg(together(bytes.Repeat([]byte{0xff}, 200), hint))
	refused++
	if got, _ := d.g.inbox.frames.take(); !bytes.Equal(got, hint) {
		t.Errorf("of the hint arrived %x", got)
	}
	if got := d.g.counts.undecodable.Load(); got != refused {
		t.Errorf("%d were refused, want %d", got, refused)
	}
}

// newReceiver is what memberlist calls, of a peer that sends nothing.
func newReceiver(t testing.TB) *delegate {
	t.Helper()
	g := &Gossip{inbox: newInbox()}
	g.outbox = newOutbox(g)
	g.outbox.open(&session{})
	return &delegate{g: g}
}

// FuzzDatagrams brings any bytes, with the pieces of a parcel around them. The
// parcel arrives once, unless they say something of it, too.
func FuzzDatagrams(f *testing.F) {
	honest := &parcel{id: 0x5eed5eed5eed5eed, frames: 1}
	frame := frameOf(3000, 1)
	honest.body = binary.BigEndian.AppendUint64([]byte{kindDatagram}, honest.id)
	honest.body = append(binary.AppendUvarint(honest.body, uint64(len(frame))), frame...)
	honest.divide()
	from := peer.ID{5}
	short := pack([][]byte{frameOf(40, 1)})[0].body
	f.Add(honest.piece(from, 2), uint8(0))
	f.Add(honest.piece(peer.ID{6}, 2), uint8(1))
	f.Add(append(honest.piece(from, 1)[:pieceHeader-1], 16, 1), uint8(1))
	f.Add(append(honest.piece(from, 3)[:pieceHeader-2], 0, 3, 1), uint8(3))
	f.Add(append(honest.piece(from, 3)[:pieceHeader-2], 17, 17, 1), uint8(2))
	f.Add([]byte{kindPiece}, uint8(2))
	f.Add(short, uint8(2))
	f.Add(together(receipt(peer.ID{6}, []uint64{1, 2}), short), uint8(1))
	f.Add(together(short, short, honest.piece(from, 1)), uint8(1))
	f.Add(together(together(short)), uint8(1))
	f.Add([]byte{kindTogether, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, uint8(1))
	f.Add([]byte{kindTogether, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		d := newReceiver(t)
		for n := range len(honest.posts) + 1 {
			if n == int(at)%(len(honest.posts)+1) {
				for range 3 {
					d.NotifyMsg(b)
				}
			}
			if n < len(honest.posts) {
				d.NotifyMsg(honest.piece(from, n+1))
			}
		}
		arrived := 0
		for got, ok := d.g.inbox.frames.take(); ok; got, ok = d.g.inbox.frames.take() {
			if bytes.Equal(got, frame) {
				arrived++
			}
		}
		if arrived != 1 && !bytes.Contains(b, honest.body[1:parcelHeader]) {
			t.Errorf("the parcel has arrived %d times", arrived)
		}
		if kept := len(d.g.inbox.partials.list); kept > 1+len(b)/pieceHeader {
			t.Errorf("%d parcels are kept", kept)
		}
		if due, _ := d.g.outbox.due(time.Now().Add(time.Second)); len(due) > 1+len(b)/parcelHeader {
			t.Errorf("%d datagrams are sent", len(due))
		}
	})
}
