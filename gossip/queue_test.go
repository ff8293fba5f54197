package gossip

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/ipam/peer"
)

func TestLane(t *testing.T) {
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

// beatOf returns what looks like a beat of a peer.
func beatOf(n int, text string) heartbeat {
	b := make([]byte, senderAt+16)
	b[0], b[senderAt], b[senderAt+1], b[senderAt+2] = frameVersion, 1, byte(n>>8), byte(n)
	return heartbeat{beat: append(b, text...)}
}

func TestBeatsKeepTheLast(t *testing.T) {
	b := &newInbox().beats
	for i := range maxBeats {
		b.put(beatOf(i, "old"))
	}
	if b.put(beatOf(maxBeats, "new")) {
		t.Error("there is room for one sender too many")
	}
	for i := range maxBeats {
		if !b.put(beatOf(i, "new")) {
			t.Fatalf("the newer beat of sender %d was refused", i)
		}
	}
	for range maxBeats {
		if got, ok := b.take(); !ok || !bytes.HasSuffix(got.beat, []byte("new")) {
			t.Fatalf("got %q, %v, want the newer beat", got.beat, ok)
		}
	}
	if _, ok := b.take(); ok {
		t.Error("a beat came out twice")
	}
}

// TestSetKeys changes keys while others decrypt, which memberlist's key ring
// by itself does not stand: run with -race.
func TestSetKeys(t *testing.T) {
	ring, err := memberlist.NewKeyring(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, _ := logging(t)
	s := &session{g: g, keyring: ring}
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				for _, key := range ring.GetKeys() {
					_ = key[0]
				}
			}
		}
	})
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 16) }
	for range 100 {
		for _, want := range [][]byte{{1}, {1, 2}, {2, 1}, {2}, {2, 3, 4, 5}, {5, 3, 1}, {9}, {8, 9}} {
			var keys [][]byte
			for _, n := range want {
				keys = append(keys, key(n))
			}
			if err := s.setKeys(keys); err != nil {
				t.Fatal(err)
			}
			have := ring.GetKeys()
			if !bytes.Equal(have[0], keys[0]) || len(have) != len(keys) ||
				slices.ContainsFunc(keys, func(k []byte) bool { return !contains(have, k) }) {
				t.Fatalf("got %v, want %v", have, keys)
			}
		}
	}
	if err := s.setKeys(nil); err == nil || len(ring.GetKeys()) != 2 {
		t.Errorf("no keys: got %v with %d keys in use", err, len(ring.GetKeys()))
	}
	close(stop)
	reading.Wait()
}

// TestTableIgnoresThePast sends events of a memberlist that was shut down.
func TestTableIgnoresThePast(t *testing.T) {
	now := time.Now()
	p := Presence{ID: peer.ID{2}, Addr: netip.MustParseAddrPort("10.0.0.2:7950")}
	table := newTable(peer.ID{1}, func(netip.AddrPort) int { return 0 }, nil)
	first := table.begin()
	table.appeared(first, p, now)
	table.end(now)
	table.appeared(first, p, now)
	if table.numAlive() != 0 {
		t.Error("a peer appeared in a memberlist that has ended")
	}
	second := table.begin()
	table.appeared(second, p, now)
	table.disappeared(first, p.ID, now)
	table.appeared(second, Presence{ID: peer.ID{1}, Addr: p.Addr}, now)
	if table.numAlive() != 1 {
		t.Errorf("%d are alive, want one", table.numAlive())
	}
}
