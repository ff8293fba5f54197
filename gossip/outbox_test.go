package gossip

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// desk is an outbox with nobody to send what is due.
type desk struct {
	*outbox
	t     *testing.T
	begun time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{outbox: newOutbox(&Gossip{}), t: t, begun: time.Now()}
	d.open(&session{})
	return d
}

// sent returns what is due some time after the beginning, as sent.
func (d *desk) sent(after time.Duration, ok bool) (datagrams, streams []mail) {
	d.t.Helper()
	due, _ := d.due(d.begun.Add(after))
	for _, m := range due {
		switch {
		case m.stream:
			streams = append(streams, m)
		case m.parcel != nil:
			d.datagramSent(m, ok)
			datagrams = append(datagrams, m)
		}
	}
	return datagrams, streams
}

// put is outbox.put at the beginning.
func (d *desk) put(to byte, frames ...[]byte) {
	d.outbox.put(peer.ID{to}, frames...)
	for _, p := range d.lines[peer.ID{to}].parcels {
		if !p.begun() {
			p.born = d.begun
			p.divide()
		}
	}
}

const ms = time.Millisecond

// TestRepeat sends a parcel for which no receipt comes.
func TestRepeat(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(100, 1))
	for _, step := range []struct {
		after             time.Duration
		datagrams, stream int
	}{
		{0, 1, 0},
		{59 * ms, 0, 0},
		{60 * ms, 1, 0},
		{179 * ms, 0, 0},
		{180 * ms, 1, 0},
		{419 * ms, 0, 0},
		{420 * ms, 1, 1},
		{899 * ms, 0, 0},
		{900 * ms, 1, 0},
		{maxLife, 0, 0},
	} {
		datagrams, streams := d.sent(step.after, true)
		if len(datagrams) != step.datagrams || len(streams) != step.stream {
			t.Fatalf("after %v: %d datagrams and %d streams, want %d and %d", step.after, len(datagrams), len(streams), step.datagrams, step.stream)
		}
	}
	if c := &d.g.counts; c.sent.Load() != 1 || c.repeated.Load() != 4 || c.unconfirmed.Load() != 1 || c.dropped.Load() != 0 {
		t.Errorf("%d sent, %d repeated, %d unconfirmed", c.sent.Load(), c.repeated.Load(), c.unconfirmed.Load())
	}
}

// TestConfirmed sends a parcel for which a receipt comes.
func TestConfirmed(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(100, 1), frameOf(100, 2))
	datagrams, _ := d.sent(0, true)
	id := datagrams[0].parcel.id
	d.arrived(peer.ID{2}, id, d.begun) // somebody else's
	d.arrived(peer.ID{1}, id, d.begun.Add(10*ms))
	d.arrived(peer.ID{1}, id, d.begun.Add(20*ms))
	if datagrams, streams := d.sent(500*ms, true); len(datagrams)+len(streams) > 0 || len(d.lines) > 0 {
		t.Errorf("%d datagrams and %d streams after the receipt", len(datagrams), len(streams))
	}
	if got := d.reached[peer.ID{1}].smooth; got != 10*ms {
		t.Errorf("the receipt took %v, want 10ms", got)
	}
	if c := &d.g.counts; c.sent.Load() != 2 || c.unconfirmed.Load() != 0 {
		t.Errorf("%d sent, %d unconfirmed", c.sent.Load(), c.unconfirmed.Load())
	}
}

// TestDeaf sends to a peer that no datagram reaches.
func TestDeaf(t *testing.T) {
	d := newDesk(t)
	for range deafAfter {
		d.put(1, frameOf(100, 1))
		for _, after := range []time.Duration{0, 60 * ms, 180 * ms} {
			if _, streams := d.sent(after, true); len(streams) > 0 {
				t.Fatalf("a stream was opened after %v", after)
			}
		}
		d.sent(420*ms, true)
		d.sent(maxLife, true)
	}
	d.put(1, frameOf(100, 1))
	datagrams, streams := d.sent(0, true)
	if len(datagrams) != 1 || len(streams) != 1 {
		t.Fatalf("%d datagrams and %d streams at once, want one of each", len(datagrams), len(streams))
	}
	for after := range maxLife / (10 * ms) {
		if again, _ := d.sent(after*10*ms, true); len(again) > 0 {
			t.Fatal("a datagram was repeated to where none arrives")
		}
	}
	d.arrived(peer.ID{1}, datagrams[0].parcel.id, d.begun.Add(900*ms))
	d.put(1, frameOf(100, 2))
	if _, streams := d.sent(0, true); len(streams) > 0 {
		t.Error("a stream was opened to a peer whose receipt has come")
	}
}

// TestNoDatagram has a network that takes none.
func TestNoDatagram(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(100, 1))
	d.sent(0, false)
	_, streams := d.sent(ms, false)
	if len(streams) != 1 {
		t.Fatalf("%d streams, want one", len(streams))
	}
	d.streamSent(streams[0], true)
	d.sent(maxLife, false)
	if c := &d.g.counts; c.sent.Load() != 1 || c.dropped.Load()+c.unconfirmed.Load() != 0 {
		t.Errorf("%d sent, %d dropped, %d unconfirmed", c.sent.Load(), c.dropped.Load(), c.unconfirmed.Load())
	}
}

// TestStreams opens some at a time, for the newest first.
func TestStreams(t *testing.T) {
	d := newDesk(t)
	const n = 10
	for i := range n {
		d.put(1, frameOf(maxPieced, byte(i)))
	}
	d.put(1, make([]byte, bulk))
	d.put(1, make([]byte, bulk+1))
	_, streams := d.sent(0, true)
	if len(streams) != 1+maxStreams || len(streams[0].body) <= bulk+parcelHeader+3 {
		t.Fatalf("%d streams, want one for the longest and newest, and %d beside it", len(streams), maxStreams)
	}
	if streams[1].body[parcelHeader+10] != n-1 {
		t.Errorf("the next one is not for the newest of the others")
	}
	if _, more := d.sent(ms, true); len(more) > 0 {
		t.Fatalf("%d more streams, while all are open", len(more))
	}
	d.streamSent(streams[0], true)
	streams = streams[1:]
	_, more := d.sent(ms, true)
	if len(more) != 1 || len(more[0].body) <= bulk {
		t.Fatalf("%d streams, want one for the other long one", len(more))
	}
	d.streamSent(more[0], true)
	for i, m := range streams {
		d.streamSent(m, i < 3)
	}
	if _, streams = d.sent(2*ms, true); len(streams) != 1 {
		t.Errorf("%d streams to where the last one failed, want one", len(streams))
	}
	d.sent(maxLife, true)
	if c := &d.g.counts; c.sent.Load() != 5 || c.failed.Load() != 1 || c.dropped.Load() != n-5 {
		t.Errorf("%d sent, %d failed, %d dropped", c.sent.Load(), c.failed.Load(), c.dropped.Load())
	}
	d.streamSent(streams[0], true)
	if d.sent(maxLife, true); len(d.lines) > 0 {
		t.Errorf("%d lines are left", len(d.lines))
	}
}

// numbersOf are the numbers of the pieces that are sent.
func numbersOf(t *testing.T, mails []mail) (numbers []int) {
	t.Helper()
	for _, m := range mails {
		p, ok := readPiece(m.body)
		if !ok || p.parcel != m.parcel.id || p.of != len(m.parcel.posts) {
			t.Fatalf("%d bytes are sent that are no piece of their parcel", len(m.body))
		}
		numbers = append(numbers, p.number)
	}
	return numbers
}

// TestPieces sends a parcel in pieces, of which some have a receipt.
func TestPieces(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(5000, 1))
	if _, again := d.due(d.begun); !again.Equal(d.begun.Add(firstPatience)) {
		t.Errorf("the next look is after %v", again.Sub(d.begun))
	}
	d = newDesk(t)
	d.put(1, frameOf(5000, 1))
	var id uint64
	for _, step := range []struct {
		after    time.Duration
		receipts []uint64 // before, less the ID of the parcel
		want     []int
	}{
		{0, nil, []int{1, 2, 3, 4, 5}},
		{10 * ms, []uint64{2, 5}, nil},
		{59 * ms, []uint64{6, 7, 1 << 40}, nil}, // no pieces
		{60 * ms, nil, []int{1, 3, 4}},
		{139 * ms, []uint64{1, 4, 4}, nil}, // a receipt has come within 10 ms
		{140 * ms, nil, []int{3}},
		{299 * ms, nil, nil},
		{maxLife - 1, []uint64{0}, nil},
	} {
		for _, n := range step.receipts {
			d.arrived(peer.ID{1}, id+n, d.begun.Add(step.after))
		}
		datagrams, streams := d.sent(step.after, true)
		if got := numbersOf(t, datagrams); !slices.Equal(got, step.want) || len(streams) > 0 {
			t.Fatalf("after %v: pieces %d, and %d streams, want %d", step.after, got, len(streams), step.want)
		}
		if len(datagrams) > 0 {
			id = datagrams[0].parcel.id
		}
	}
	if c := &d.g.counts; len(d.lines) > 0 || c.sent.Load() != 1 || c.repeated.Load() != 2 || c.unconfirmed.Load() != 0 {
		t.Errorf("%d sent, %d repeated, %d unconfirmed, %d lines are left", c.sent.Load(), c.repeated.Load(), c.unconfirmed.Load(), len(d.lines))
	}
}

// TestPiecesForgotten has each piece arrive, but not the parcel: the receiver
// had no room to keep them.
func TestPiecesForgotten(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(2000, 1))
	datagrams, _ := d.sent(0, true)
	for n := range datagrams {
		if _, streams := d.sent(ms, true); len(streams) > 0 {
			t.Fatal("a stream was opened while a piece is missing")
		}
		d.arrived(peer.ID{1}, datagrams[0].parcel.id+uint64(n+1), d.begun.Add(ms))
	}
	if datagrams, streams := d.sent(2*ms, true); len(datagrams) > 0 || len(streams) != 1 {
		t.Errorf("%d datagrams and %d streams, want one stream", len(datagrams), len(streams))
	}
}

// TestPiecesDeaf sends a parcel in pieces to a peer that no datagram reaches.
func TestPiecesDeaf(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(5000, 1))
	d.lines[peer.ID{1}].deaf = deafAfter
	datagrams, streams := d.sent(0, true)
	if got := numbersOf(t, datagrams); !slices.Equal(got, []int{1}) || len(streams) != 1 {
		t.Fatalf("pieces %d and %d streams, want the first and one stream", got, len(streams))
	}
	if datagrams, _ := d.sent(300*ms, true); len(datagrams) > 0 {
		t.Error("a piece was repeated to where none arrives")
	}
	d.arrived(peer.ID{1}, datagrams[0].parcel.id+1, d.begun.Add(300*ms))
	if d.lines[peer.ID{1}].deaf > 0 {
		t.Error("the receipt for a piece does not count as one")
	}
}

// TestManyPieces sends more than may be under way in pieces.
func TestManyPieces(t *testing.T) {
	d := newDesk(t)
	const fit = maxFlying / maxPieces
	for range fit + 1 {
		d.put(1, frameOf(maxPieced-parcelHeader-3, 1))
	}
	d.put(1, frameOf(100, 1))
	datagrams, streams := d.sent(0, true)
	if len(datagrams) != maxFlying+1 || len(streams) != 1 {
		t.Fatalf("%d datagrams and %d streams, want %d and one", len(datagrams), len(streams), maxFlying+1)
	}
	d.arrived(peer.ID{1}, streams[0].parcel.id, d.begun) // nobody can mean that
	d.arrived(peer.ID{1}, datagrams[0].parcel.id, d.begun)
	d.put(1, frameOf(maxPieced-parcelHeader-3, 1))
	d.put(1, frameOf(maxPieced, 1))
	datagrams, streams = d.sent(ms, true)
	d.arrived(peer.ID{1}, d.lines[peer.ID{1}].parcels[0].id, d.begun)
	if len(datagrams) != maxPieces || len(streams) != 1 {
		t.Errorf("%d datagrams and %d streams, want %d, as there is room again, and one", len(datagrams), len(streams), maxPieces)
	}
	d.put(1, frameOf(maxPieced, 1))
	l := d.lines[peer.ID{1}]
	d.arrived(peer.ID{1}, l.parcels[len(l.parcels)-1].id, d.begun) // of a parcel that waits for a stream: nobody can mean that
	if _, streams = d.sent(2*ms, true); len(streams) != 1 {
		t.Errorf("%d streams, want one", len(streams))
	}
}

// TestOutboxDropsTheOldest puts in more than there is room for.
func TestOutboxDropsTheOldest(t *testing.T) {
	d := newDesk(t)
	for i := range maxOutbox + 10 {
		d.put(1, frameOf(100, byte(i)))
	}
	l := d.lines[peer.ID{1}]
	if got := l.parcels[0].body[parcelHeader+10]; len(l.parcels) != maxOutbox || got != 10 {
		t.Errorf("%d wait, the first is number %d, want the eleventh", len(l.parcels), got)
	}
	for range maxOutboxBytes/MaxFrame + 1 {
		d.put(1, make([]byte, MaxFrame))
	}
	if l.bytes > maxOutboxBytes || l.bytes != bytesOf(l) || len(l.parcels) != maxOutboxBytes/MaxFrame-1 {
		t.Errorf("%d bytes wait in %d parcels", l.bytes, len(l.parcels))
	}
	_, streams := d.sent(0, true)
	d.close()
	if got := d.g.counts.dropped.Load(); len(streams) != 1 || got != uint64(maxOutbox+10+maxOutboxBytes/MaxFrame) {
		t.Errorf("%d streams, and %d frames were counted as dropped", len(streams), got)
	}
	d.outbox.put(peer.ID{1}, frameOf(100, 1))
	d.streamSent(streams[0], true)
	if due, _ := d.due(d.begun); len(due) > 0 {
		t.Error("a closed outbox gives something")
	}
}

func bytesOf(l *line) (n int) {
	for _, p := range l.parcels {
		n += len(p.body)
	}
	return n
}

// receiptsIn are the IDs in all receipts among what is sent.
func receiptsIn(t *testing.T, due []mail) (got []uint64) {
	t.Helper()
	for _, m := range due {
		all := [][]byte{m.body}
		if m.body[0] == kindTogether {
			var ok bool
			if all, ok = apart(m.body); !ok || len(all) != 2 || m.parcel == nil {
				t.Fatalf("%d bytes are sent that cannot be taken apart", len(m.body))
			}
		}
		if all[0][0] != kindReceipt {
			continue
		}
		from, ids, ok := readReceipt(all[0])
		if !ok || from != (peer.ID{9}) {
			t.Errorf("to %v goes what is no receipt", m.to)
		}
		got = append(got, ids...)
	}
	return got
}

// TestReceipts owes more receipts than fit into one datagram.
func TestReceipts(t *testing.T) {
	d := newDesk(t)
	d.g.cfg.ID = peer.ID{9}
	var want []uint64
	for i := range uint64(maxReceipts + 1) {
		d.owe(peer.ID{1}, 100*i, 1, d.begun)
		want = append(want, 100*i)
	}
	due, again := d.due(d.begun.Add(receiptWait - 1))
	if len(due) > 0 || !again.Equal(d.begun.Add(receiptWait)) {
		t.Errorf("%d datagrams at once, and the next look is at %v", len(due), again)
	}
	due, _ = d.due(d.begun.Add(receiptWait))
	if got := receiptsIn(t, due); !slices.Equal(got, want) || len(due) != 2 || due[0].to != (peer.ID{1}) {
		t.Errorf("got %d receipts in %d datagrams", len(got), len(due))
	}
	if due, _ = d.due(d.begun.Add(time.Hour)); len(due) > 0 {
		t.Error("a receipt is sent twice")
	}
	for i := range uint64(2 * maxOwed) {
		d.owe(peer.ID{1}, 100*i, 1, d.begun)
	}
	if due, _ = d.due(d.begun.Add(time.Hour)); len(receiptsIn(t, due)) != maxOwed {
		t.Errorf("%d receipts are owed at a time, want %d", len(receiptsIn(t, due)), maxOwed)
	}
}

// TestReceiptsOfPieces owes receipts for pieces, for which that of their parcel
// stands.
func TestReceiptsOfPieces(t *testing.T) {
	d := newDesk(t)
	d.g.cfg.ID = peer.ID{9}
	for _, id := range []uint64{301, 401, 303} {
		d.owe(peer.ID{1}, id, 0, d.begun)
	}
	d.owe(peer.ID{1}, 300, 3, d.begun)
	d.owe(peer.ID{1}, 300, 3, d.begun)
	d.owe(peer.ID{1}, 401, 0, d.begun)
	d.owe(peer.ID{2}, 400, 3, d.begun.Add(ms)) // to somebody else
	due, again := d.due(d.begun.Add(receiptWait))
	if got, want := receiptsIn(t, due), []uint64{300, 401}; !slices.Equal(got, want) || !again.Equal(d.begun.Add(receiptWait+ms)) {
		t.Errorf("got receipts %d, want %d", got, want)
	}
}

// TestReceiptsTravel owes receipts to a peer to which datagrams go.
func TestReceiptsTravel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames [][]byte
		owed   uint64
		mails  int
		travel int
	}{
		{"one with an answer", [][]byte{frameOf(100, 1)}, 1, 1, 1},
		{"as many as there is room for", [][]byte{frameOf(1000, 1)}, 100, 1, (maxDatagram - togetherHeader - receiptHeader - parcelHeader - 2 - 1000) / 8},
		{"no room", [][]byte{frameOf(maxDatagram-parcelHeader-2, 1)}, 1, 1, 0},
		{"a byte too little room", [][]byte{frameOf(maxDatagram-togetherHeader-receiptHeader-parcelHeader-2-7, 1)}, 1, 1, 0},
		{"with the last of some pieces", [][]byte{frameOf(2*pieceSize+100, 1)}, 10, 3, 10},
		{"to a peer to which a stream goes", [][]byte{frameOf(maxPieced, 1)}, 1, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			d.g.cfg.ID = peer.ID{9}
			for i := range tt.owed {
				d.owe(peer.ID{1}, 100*i, 1, d.begun)
			}
			d.owe(peer.ID{2}, 7, 1, d.begun)
			d.put(1, tt.frames...)
			due, _ := d.due(d.begun)
			got := receiptsIn(t, due)
			if len(due) != tt.mails || len(got) != tt.travel || slices.Contains(got, 7) {
				t.Fatalf("%d receipts travel with %d mails, want %d with %d", len(got), len(due), tt.travel, tt.mails)
			}
			r := newReceiver(t)
			for _, m := range due {
				if !m.stream && len(m.body) > maxDatagram {
					t.Errorf("a datagram of %d bytes is sent", len(m.body))
				}
				r.NotifyMsg(m.body)
			}
			if f, ok := r.g.inbox.frames.take(); !ok || !slices.Equal(f, tt.frames[0]) || r.g.counts.undecodable.Load() > 0 {
				t.Error("the frame does not arrive with them")
			}
			later, _ := d.due(d.begun.Add(receiptWait))
			if got = append(got, receiptsIn(t, later)...); uint64(len(got)) != tt.owed+1 {
				t.Errorf("%d receipts are sent in all, want %d", len(got), tt.owed+1)
			}
		})
	}
}
