package datagram

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// What a frame is in these tests: its author stands at its end.
const (
	minFrame = 35
	maxFrame = 16 << 20
)

// frameOf returns what looks like a frame of that length.
func frameOf(size int, mark byte) []byte {
	f := bytes.Repeat([]byte{mark}, size)
	f[0] = 1
	return f
}

func config(self peer.ID, deliver func(frames ...[]byte)) Config {
	author := func(frame []byte) peer.ID { return peer.ID(frame[len(frame)-len(peer.ID{}):]) }
	return Config{Self: self, MinFrame: minFrame, MaxFrame: maxFrame, Author: author, Deliver: deliver}
}

// receiver is an open endpoint that nobody runs, with what has arrived there.
type receiver struct {
	*Endpoint
	frames     [][]byte
	unreadable int
}

func newReceiver() *receiver {
	r := &receiver{}
	r.Endpoint = New(config(peer.ID{8}, r.deliver))
	r.Open(nowhere{})
	return r
}

func (r *receiver) deliver(frames ...[]byte) { r.frames = append(r.frames, frames...) }

// bring brings bytes as a network does.
func (r *receiver) bring(b []byte) {
	ok := r.Receive(b, func(frame []byte) bool {
		if len(frame) < minFrame {
			return false
		}
		r.deliver(bytes.Clone(frame))
		return true
	})
	if !ok {
		r.unreadable++
	}
}

// TestKinds looks whether all kinds differ, and none may be the version of a frame.
func TestKinds(t *testing.T) {
	known := map[int]bool{}
	for i, kind := range []int{kindMessage, kindStream, kindAck, kindFragment, kindBundle, KindHeartbeat} {
		if known[kind] || kind != 0xf0+i || IsFrame([]byte{byte(kind)}) {
			t.Errorf("kind %d is %#x", i, kind)
		}
		known[kind] = true
	}
}

// TestLaterKind brings what only a later release can read, also beside a broadcast, which this one can.
func TestLaterKind(t *testing.T) {
	r := newReceiver()
	refused := 0
	for kind := kindBundle + 1; kind <= 0xff; kind++ {
		b := bytes.Repeat([]byte{7}, 200)
		b[0] = byte(kind)
		r.bring(b)
		refused++
	}
	r.bring(Bundle(Bundle(pack([][]byte{frameOf(40, 1)})[0].body)))
	r.bring(nil)
	refused += 2
	if len(r.frames) > 0 {
		t.Error("something was taken for what it is not")
	}
	broadcast := frameOf(200, 1)
	r.bring(Bundle(bytes.Repeat([]byte{0xff}, 200), broadcast))
	refused++
	if len(r.frames) != 1 || !bytes.Equal(r.frames[0], broadcast) {
		t.Errorf("of the broadcast arrived %x", r.frames)
	}
	if r.unreadable != refused {
		t.Errorf("%d were refused, want %d", r.unreadable, refused)
	}
}

// FuzzReceive brings any bytes, with the fragments of a message around them. The message arrives once, unless they say
// something of it, too.
func FuzzReceive(f *testing.F) {
	honest := &message{id: 0x5eed5eed5eed5eed, frames: 1}
	frame := frameOf(3000, 1)
	honest.body = binary.BigEndian.AppendUint64([]byte{kindMessage}, honest.id)
	honest.body = append(binary.AppendUvarint(honest.body, uint64(len(frame))), frame...)
	honest.divide()
	from := peer.ID{5}
	short := pack([][]byte{frameOf(40, 1)})[0].body
	f.Add(honest.fragment(from, 2), uint8(0))
	f.Add(honest.fragment(peer.ID{6}, 2), uint8(1))
	f.Add(append(honest.fragment(from, 1)[:fragmentHeader-1], 16, 1), uint8(1))
	f.Add(append(honest.fragment(from, 3)[:fragmentHeader-2], 0, 3, 1), uint8(3))
	f.Add(append(honest.fragment(from, 3)[:fragmentHeader-2], 17, 17, 1), uint8(2))
	f.Add([]byte{kindFragment}, uint8(2))
	f.Add(short, uint8(2))
	f.Add(Bundle(ack(peer.ID{6}, []uint64{1, 2}), short), uint8(1))
	f.Add(Bundle(short, short, honest.fragment(from, 1)), uint8(1))
	f.Add(Bundle(Bundle(short)), uint8(1))
	f.Add([]byte{kindBundle, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, uint8(1))
	f.Add([]byte{kindBundle, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		r := newReceiver()
		for n := range len(honest.attempts) + 1 {
			if n == int(at)%(len(honest.attempts)+1) {
				for range 3 {
					r.bring(b)
				}
			}
			if n < len(honest.attempts) {
				r.bring(honest.fragment(from, n+1))
			}
		}
		arrived := 0
		for _, got := range r.frames {
			if bytes.Equal(got, frame) {
				arrived++
			}
		}
		if arrived != 1 && !bytes.Contains(b, honest.body[1:messageHeader]) {
			t.Errorf("the message has arrived %d times", arrived)
		}
		if kept := len(r.reassembly.list); kept > 1+len(b)/fragmentHeader {
			t.Errorf("%d messages are kept", kept)
		}
		if due, _ := r.due(time.Now().Add(time.Second)); len(due) > 1+len(b)/messageHeader {
			t.Errorf("%d datagrams are sent", len(due))
		}
	})
}
