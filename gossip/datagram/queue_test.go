package datagram

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// desk is an open endpoint that nobody runs.
type desk struct {
	*Endpoint
	t     *testing.T
	begun time.Time
}

// nowhere is a network that takes nothing.
type nowhere struct{}

func (nowhere) SendDatagram(peer.ID, []byte) bool { return false }
func (nowhere) SendStream(peer.ID, []byte) bool   { return false }

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{Endpoint: New(config(peer.ID{9}, nil)), t: t, begun: time.Now()}
	d.Open(nowhere{})
	return d
}

// sent returns what is due some time after the beginning, as sent.
func (d *desk) sent(after time.Duration, ok bool) (datagrams, streams []outgoing) {
	d.t.Helper()
	due, _ := d.due(d.begun.Add(after))
	for _, m := range due {
		switch {
		case m.stream:
			streams = append(streams, m)
		case m.message != nil:
			d.datagramSent(m, ok)
			datagrams = append(datagrams, m)
		}
	}
	return datagrams, streams
}

// put is Send at the beginning.
func (d *desk) put(to byte, frames ...[]byte) {
	d.Send(peer.ID{to}, frames...)
	for _, p := range d.queues[peer.ID{to}].messages {
		if !p.begun() {
			p.queued = d.begun
			p.divide()
		}
	}
}

const ms = time.Millisecond

// TestRepeat sends a message for which no ack comes.
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
		{messageTTL, 0, 0},
	} {
		datagrams, streams := d.sent(step.after, true)
		if len(datagrams) != step.datagrams || len(streams) != step.stream {
			t.Fatalf("after %v: %d datagrams and %d streams, want %d and %d", step.after, len(datagrams), len(streams), step.datagrams, step.stream)
		}
	}
	if c := &d.counts; c.sent.Load() != 1 || c.repeated.Load() != 4 || c.unconfirmed.Load() != 1 || c.dropped.Load() != 0 {
		t.Errorf("%d sent, %d repeated, %d unconfirmed", c.sent.Load(), c.repeated.Load(), c.unconfirmed.Load())
	}
}

// TestAcked sends a message for which an ack comes.
func TestAcked(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(100, 1), frameOf(100, 2))
	datagrams, _ := d.sent(0, true)
	id := datagrams[0].message.id
	d.acked(peer.ID{2}, id, d.begun) // somebody else's
	d.acked(peer.ID{1}, id, d.begun.Add(10*ms))
	d.acked(peer.ID{1}, id, d.begun.Add(20*ms))
	if datagrams, streams := d.sent(500*ms, true); len(datagrams)+len(streams) > 0 || len(d.queues) > 0 {
		t.Errorf("%d datagrams and %d streams after the ack", len(datagrams), len(streams))
	}
	if got := d.paths[peer.ID{1}].srtt; got != 10*ms {
		t.Errorf("the ack took %v, want 10ms", got)
	}
	if c := &d.counts; c.sent.Load() != 2 || c.unconfirmed.Load() != 0 {
		t.Errorf("%d sent, %d unconfirmed", c.sent.Load(), c.unconfirmed.Load())
	}
}

// TestDatagramsFail sends to a peer that no datagram reaches.
func TestDatagramsFail(t *testing.T) {
	d := newDesk(t)
	for range failAfter {
		d.put(1, frameOf(100, 1))
		for _, after := range []time.Duration{0, 60 * ms, 180 * ms} {
			if _, streams := d.sent(after, true); len(streams) > 0 {
				t.Fatalf("a stream was opened after %v", after)
			}
		}
		d.sent(420*ms, true)
		d.sent(messageTTL, true)
	}
	d.put(1, frameOf(100, 1))
	datagrams, streams := d.sent(0, true)
	if len(datagrams) != 1 || len(streams) != 1 {
		t.Fatalf("%d datagrams and %d streams at once, want one of each", len(datagrams), len(streams))
	}
	for after := range messageTTL / (10 * ms) {
		if again, _ := d.sent(after*10*ms, true); len(again) > 0 {
			t.Fatal("a datagram was repeated to where none arrives")
		}
	}
	d.acked(peer.ID{1}, datagrams[0].message.id, d.begun.Add(900*ms))
	d.put(1, frameOf(100, 2))
	if _, streams := d.sent(0, true); len(streams) > 0 {
		t.Error("a stream was opened to a peer whose ack has come")
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
	d.sent(messageTTL, false)
	if c := &d.counts; c.sent.Load() != 1 || c.dropped.Load()+c.unconfirmed.Load() != 0 {
		t.Errorf("%d sent, %d dropped, %d unconfirmed", c.sent.Load(), c.dropped.Load(), c.unconfirmed.Load())
	}
}

// TestStreams opens some at a time, for the newest first.
func TestStreams(t *testing.T) {
	d := newDesk(t)
	const n = 10
	for i := range n {
		d.put(1, frameOf(maxFragmented, byte(i)))
	}
	d.put(1, make([]byte, longMessage))
	d.put(1, make([]byte, longMessage+1))
	_, streams := d.sent(0, true)
	if len(streams) != 1+maxStreams || len(streams[0].body) <= longMessage+messageHeader+3 {
		t.Fatalf("%d streams, want one for the longest and newest, and %d beside it", len(streams), maxStreams)
	}
	if streams[1].body[messageHeader+10] != n-1 {
		t.Errorf("the next one is not for the newest of the others")
	}
	if _, more := d.sent(ms, true); len(more) > 0 {
		t.Fatalf("%d more streams, while all are open", len(more))
	}
	d.streamSent(streams[0], true)
	streams = streams[1:]
	_, more := d.sent(ms, true)
	if len(more) != 1 || len(more[0].body) <= longMessage {
		t.Fatalf("%d streams, want one for the other long one", len(more))
	}
	d.streamSent(more[0], true)
	for i, m := range streams {
		d.streamSent(m, i < 3)
	}
	if _, streams = d.sent(2*ms, true); len(streams) != 1 {
		t.Errorf("%d streams to where the last one failed, want one", len(streams))
	}
	d.sent(messageTTL, true)
	if c := &d.counts; c.sent.Load() != 5 || c.failed.Load() != 1 || c.dropped.Load() != n-5 {
		t.Errorf("%d sent, %d failed, %d dropped", c.sent.Load(), c.failed.Load(), c.dropped.Load())
	}
	d.streamSent(streams[0], true)
	if d.sent(messageTTL, true); len(d.queues) > 0 {
		t.Errorf("%d queues are left", len(d.queues))
	}
}

// numbersOf are the numbers of the fragments that are sent.
func numbersOf(t *testing.T, outgoings []outgoing) (numbers []int) {
	t.Helper()
	for _, m := range outgoings {
		p, ok := readFragment(m.body)
		if !ok || p.message != m.message.id || p.of != len(m.message.attempts) {
			t.Fatalf("%d bytes are sent that are no fragment of their message", len(m.body))
		}
		numbers = append(numbers, p.number)
	}
	return numbers
}

// TestFragments sends a message in fragments, of which some have an ack.
func TestFragments(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(5000, 1))
	if _, again := d.due(d.begun); !again.Equal(d.begun.Add(initialRTO)) {
		t.Errorf("the next look is after %v", again.Sub(d.begun))
	}
	d = newDesk(t)
	d.put(1, frameOf(5000, 1))
	var id uint64
	for _, step := range []struct {
		after time.Duration
		acks  []uint64 // before, less the ID of the message
		want  []int
	}{
		{0, nil, []int{1, 2, 3, 4, 5}},
		{10 * ms, []uint64{2, 5}, nil},
		{59 * ms, []uint64{6, 7, 1 << 40}, nil}, // no fragments
		{60 * ms, nil, []int{1, 3, 4}},
		{139 * ms, []uint64{1, 4, 4}, nil}, // an ack has come within 10 ms
		{140 * ms, nil, []int{3}},
		{299 * ms, nil, nil},
		{messageTTL - 1, []uint64{0}, nil},
	} {
		for _, n := range step.acks {
			d.acked(peer.ID{1}, id+n, d.begun.Add(step.after))
		}
		datagrams, streams := d.sent(step.after, true)
		if got := numbersOf(t, datagrams); !slices.Equal(got, step.want) || len(streams) > 0 {
			t.Fatalf("after %v: fragments %d, and %d streams, want %d", step.after, got, len(streams), step.want)
		}
		if len(datagrams) > 0 {
			id = datagrams[0].message.id
		}
	}
	if c := &d.counts; len(d.queues) > 0 || c.sent.Load() != 1 || c.repeated.Load() != 2 || c.unconfirmed.Load() != 0 {
		t.Errorf("%d sent, %d repeated, %d unconfirmed, %d queues are left", c.sent.Load(), c.repeated.Load(), c.unconfirmed.Load(), len(d.queues))
	}
}

// TestFragmentsForgotten has each fragment arrive, but not the message: the receiver
// had no room to keep them.
func TestFragmentsForgotten(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(2000, 1))
	datagrams, _ := d.sent(0, true)
	for n := range datagrams {
		if _, streams := d.sent(ms, true); len(streams) > 0 {
			t.Fatal("a stream was opened while a fragment is missing")
		}
		d.acked(peer.ID{1}, datagrams[0].message.id+uint64(n+1), d.begun.Add(ms))
	}
	if datagrams, streams := d.sent(2*ms, true); len(datagrams) > 0 || len(streams) != 1 {
		t.Errorf("%d datagrams and %d streams, want one stream", len(datagrams), len(streams))
	}
}

// TestFragmentsWhereDatagramsFail sends a message in fragments to a peer that no datagram reaches.
func TestFragmentsWhereDatagramsFail(t *testing.T) {
	d := newDesk(t)
	d.put(1, frameOf(5000, 1))
	d.queues[peer.ID{1}].datagramsFail = failAfter
	datagrams, streams := d.sent(0, true)
	if got := numbersOf(t, datagrams); !slices.Equal(got, []int{1}) || len(streams) != 1 {
		t.Fatalf("fragments %d and %d streams, want the first and one stream", got, len(streams))
	}
	if datagrams, _ := d.sent(300*ms, true); len(datagrams) > 0 {
		t.Error("a fragment was repeated to where none arrives")
	}
	d.acked(peer.ID{1}, datagrams[0].message.id+1, d.begun.Add(300*ms))
	if d.queues[peer.ID{1}].datagramsFail > 0 {
		t.Error("the ack for a fragment does not count as one")
	}
}

// TestManyFragments sends more than may be under way in fragments.
func TestManyFragments(t *testing.T) {
	d := newDesk(t)
	const fit = maxInFlight / maxFragments
	for range fit + 1 {
		d.put(1, frameOf(maxFragmented-messageHeader-3, 1))
	}
	d.put(1, frameOf(100, 1))
	datagrams, streams := d.sent(0, true)
	if len(datagrams) != maxInFlight+1 || len(streams) != 1 {
		t.Fatalf("%d datagrams and %d streams, want %d and one", len(datagrams), len(streams), maxInFlight+1)
	}
	d.acked(peer.ID{1}, streams[0].message.id, d.begun) // nobody can mean that
	d.acked(peer.ID{1}, datagrams[0].message.id, d.begun)
	d.put(1, frameOf(maxFragmented-messageHeader-3, 1))
	d.put(1, frameOf(maxFragmented, 1))
	datagrams, streams = d.sent(ms, true)
	d.acked(peer.ID{1}, d.queues[peer.ID{1}].messages[0].id, d.begun)
	if len(datagrams) != maxFragments || len(streams) != 1 {
		t.Errorf("%d datagrams and %d streams, want %d, as there is room again, and one", len(datagrams), len(streams), maxFragments)
	}
	d.put(1, frameOf(maxFragmented, 1))
	l := d.queues[peer.ID{1}]
	d.acked(peer.ID{1}, l.messages[len(l.messages)-1].id, d.begun) // of a message that waits for a stream: nobody can mean that
	if _, streams = d.sent(2*ms, true); len(streams) != 1 {
		t.Errorf("%d streams, want one", len(streams))
	}
}

// TestSendDropsTheOldest puts in more than there is room for.
func TestSendDropsTheOldest(t *testing.T) {
	d := newDesk(t)
	for i := range maxQueued + 10 {
		d.put(1, frameOf(100, byte(i)))
	}
	l := d.queues[peer.ID{1}]
	if got := l.messages[0].body[messageHeader+10]; len(l.messages) != maxQueued || got != 10 {
		t.Errorf("%d wait, the first is number %d, want the eleventh", len(l.messages), got)
	}
	for range maxQueuedBytes/maxFrame + 1 {
		d.put(1, make([]byte, maxFrame))
	}
	if l.bytes > maxQueuedBytes || l.bytes != bytesOf(l) || len(l.messages) != maxQueuedBytes/maxFrame-1 {
		t.Errorf("%d bytes wait in %d messages", l.bytes, len(l.messages))
	}
	_, streams := d.sent(0, true)
	d.Close()
	if got := d.counts.dropped.Load(); len(streams) != 1 || got != uint64(maxQueued+10+maxQueuedBytes/maxFrame) {
		t.Errorf("%d streams, and %d frames were counted as dropped", len(streams), got)
	}
	d.Send(peer.ID{1}, frameOf(100, 1))
	d.streamSent(streams[0], true)
	if due, _ := d.due(d.begun); len(due) > 0 {
		t.Error("a closed endpoint gives something")
	}
}

func bytesOf(l *peerQueue) (n int) {
	for _, p := range l.messages {
		n += len(p.body)
	}
	return n
}

// acksIn are the IDs in all acks among what is sent.
func acksIn(t *testing.T, due []outgoing) (got []uint64) {
	t.Helper()
	for _, m := range due {
		all := [][]byte{m.body}
		if m.body[0] == kindBundle {
			var ok bool
			if all, ok = unbundle(m.body); !ok || len(all) != 2 || m.message == nil {
				t.Fatalf("%d bytes are sent that cannot be taken apart", len(m.body))
			}
		}
		if all[0][0] != kindAck {
			continue
		}
		from, ids, ok := readAck(all[0])
		if !ok || from != (peer.ID{9}) {
			t.Errorf("to %v goes what is no ack", m.to)
		}
		got = append(got, ids...)
	}
	return got
}

// TestAcks owes more acks than fit into one datagram.
func TestAcks(t *testing.T) {
	d := newDesk(t)
	var want []uint64
	for i := range uint64(maxAcks + 1) {
		d.scheduleAck(peer.ID{1}, 100*i, 1, d.begun)
		want = append(want, 100*i)
	}
	due, again := d.due(d.begun.Add(ackDelay - 1))
	if len(due) > 0 || !again.Equal(d.begun.Add(ackDelay)) {
		t.Errorf("%d datagrams at once, and the next look is at %v", len(due), again)
	}
	due, _ = d.due(d.begun.Add(ackDelay))
	if got := acksIn(t, due); !slices.Equal(got, want) || len(due) != 2 || due[0].to != (peer.ID{1}) {
		t.Errorf("got %d acks in %d datagrams", len(got), len(due))
	}
	if due, _ = d.due(d.begun.Add(time.Hour)); len(due) > 0 {
		t.Error("an ack is sent twice")
	}
	for i := range uint64(2 * maxPendingAcks) {
		d.scheduleAck(peer.ID{1}, 100*i, 1, d.begun)
	}
	if due, _ = d.due(d.begun.Add(time.Hour)); len(acksIn(t, due)) != maxPendingAcks {
		t.Errorf("%d acks are owed at a time, want %d", len(acksIn(t, due)), maxPendingAcks)
	}
}

// TestAcksOfFragments owes acks for fragments, for which that of their message
// stands.
func TestAcksOfFragments(t *testing.T) {
	d := newDesk(t)
	for _, id := range []uint64{301, 401, 303} {
		d.scheduleAck(peer.ID{1}, id, 0, d.begun)
	}
	d.scheduleAck(peer.ID{1}, 300, 3, d.begun)
	d.scheduleAck(peer.ID{1}, 300, 3, d.begun)
	d.scheduleAck(peer.ID{1}, 401, 0, d.begun)
	d.scheduleAck(peer.ID{2}, 400, 3, d.begun.Add(ms)) // to somebody else
	due, again := d.due(d.begun.Add(ackDelay))
	if got, want := acksIn(t, due), []uint64{300, 401}; !slices.Equal(got, want) || !again.Equal(d.begun.Add(ackDelay+ms)) {
		t.Errorf("got acks %d, want %d", got, want)
	}
}

// TestAcksAreBundled owes acks to a peer to which datagrams go.
func TestAcksAreBundled(t *testing.T) {
	for _, tt := range []struct {
		name        string
		frames      [][]byte
		pendingAcks uint64
		outgoings   int
		travel      int
	}{
		{"one with an answer", [][]byte{frameOf(100, 1)}, 1, 1, 1},
		{"as many as there is room for", [][]byte{frameOf(1000, 1)}, 100, 1, (MaxSize - bundleHeader - ackHeader - messageHeader - 2 - 1000) / 8},
		{"no room", [][]byte{frameOf(MaxSize-messageHeader-2, 1)}, 1, 1, 0},
		{"a byte too little room", [][]byte{frameOf(MaxSize-bundleHeader-ackHeader-messageHeader-2-7, 1)}, 1, 1, 0},
		{"with the last of some fragments", [][]byte{frameOf(2*fragmentSize+100, 1)}, 10, 3, 10},
		{"to a peer to which a stream goes", [][]byte{frameOf(maxFragmented, 1)}, 1, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			for i := range tt.pendingAcks {
				d.scheduleAck(peer.ID{1}, 100*i, 1, d.begun)
			}
			d.scheduleAck(peer.ID{2}, 7, 1, d.begun)
			d.put(1, tt.frames...)
			due, _ := d.due(d.begun)
			got := acksIn(t, due)
			if len(due) != tt.outgoings || len(got) != tt.travel || slices.Contains(got, 7) {
				t.Fatalf("%d acks travel with %d datagrams, want %d with %d", len(got), len(due), tt.travel, tt.outgoings)
			}
			r := newReceiver()
			for _, m := range due {
				if !m.stream && len(m.body) > MaxSize {
					t.Errorf("a datagram of %d bytes is sent", len(m.body))
				}
				r.bring(m.body)
			}
			if len(r.frames) != 1 || !slices.Equal(r.frames[0], tt.frames[0]) || r.unreadable > 0 {
				t.Error("the frame does not arrive with them")
			}
			later, _ := d.due(d.begun.Add(ackDelay))
			if got = append(got, acksIn(t, later)...); uint64(len(got)) != tt.pendingAcks+1 {
				t.Errorf("%d acks are sent in all, want %d", len(got), tt.pendingAcks+1)
			}
		})
	}
}
