package gossip

import (
	"bytes"
	"testing"
)

func TestFrameQueue(t *testing.T) {
	l := &newInbox().frames
	for i := range maxInbox {
		if !l.put([]byte{byte(i)}) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	if l.put([]byte{1}) {
		t.Error("there is room for one frame too many")
	}
	for i := range maxInbox {
		if got, ok := l.take(); !ok || got[0] != byte(i) {
			t.Fatalf("frame %d: got %v, %v", i, got, ok)
		}
	}
	if _, ok := l.take(); ok {
		t.Error("a frame came out that was not put in")
	}
	long := make([]byte, MaxFrame)
	for i := range maxInboxBytes / MaxFrame {
		if !l.put(long) {
			t.Fatalf("the longest frame was refused as number %d", i)
		}
	}
	if l.put([]byte{1}) {
		t.Error("there is room for a byte too many")
	}
	l.take()
	if !l.put(long) {
		t.Error("no room is made by taking")
	}
}

// heartbeatOf returns what looks like a heartbeat of a peer.
func heartbeatOf(n int, text string) heartbeatPayload {
	b := make([]byte, senderAt+16)
	b[0], b[senderAt], b[senderAt+1], b[senderAt+2] = frameVersion, 1, byte(n>>8), byte(n)
	return heartbeatPayload{frame: append(b, text...)}
}

func TestHeartbeatsKeepTheLast(t *testing.T) {
	b := &newInbox().heartbeats
	for i := range maxHeartbeats {
		b.put(heartbeatOf(i, "old"))
	}
	if b.put(heartbeatOf(maxHeartbeats, "new")) {
		t.Error("there is room for one sender too many")
	}
	for i := range maxHeartbeats {
		if !b.put(heartbeatOf(i, "new")) {
			t.Fatalf("the newer heartbeat of sender %d was refused", i)
		}
	}
	for range maxHeartbeats {
		if got, ok := b.take(); !ok || !bytes.HasSuffix(got.frame, []byte("new")) {
			t.Fatalf("got %q, %v, want the newer heartbeat", got.frame, ok)
		}
	}
	if _, ok := b.take(); ok {
		t.Error("a heartbeat came out twice")
	}
}
