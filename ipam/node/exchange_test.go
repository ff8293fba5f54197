package node_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// applicants are peers that ask to be admitted: they keep the answers to the challenges that they are sent.
type applicants struct{ answers [][]byte }

func (a *applicants) Send(to peer.ID, frames ...[]byte) {
	for _, b := range frames {
		f, err := wire.Decode(b)
		if err != nil {
			continue
		}
		if hello, ok := f.Body.(wire.Hello); ok && hello.Question != 0 {
			h := wire.Header{Cluster: f.Cluster, From: to, To: f.From, Boot: 1, Nonce: 1}
			a.answers = append(a.answers, wire.Encode(nil, &wire.Frame{Header: h, Body: wire.Welcome{Hello: wire.Hello{Spoken: chronicle.Spoken, Question: hello.Question}, Boot: f.Boot, Nonce: f.Nonce}}))
		}
	}
}

func (*applicants) Broadcast([]byte)    {}
func (*applicants) SetHeartbeat([]byte) {}

// apply has peers ask a node to be admitted, and returns their answers to its challenges.
func apply(t *testing.T, n *node.Node, self ipam.Identity, peers ...byte) [][]byte {
	t.Helper()
	all := &applicants{}
	n.Carry(all)
	for _, from := range peers {
		f := &wire.Frame{Header: wire.Header{From: peer.ID{from}, To: self.ID, Boot: 1, Nonce: 1}, Body: wire.Join{Name: "host"}}
		n.Deliver(func(yield func([]byte, int) bool) { yield(wire.Encode(nil, f), 0) })
	}
	synctest.Wait()
	if len(all.answers) != len(peers) {
		t.Fatalf("%d of %d peers were challenged", len(all.answers), len(peers))
	}
	return all.answers
}

// TestFramesShareACommit delivers frames that arrived together, of which one
// cannot be read: what the others lead to is written at once.
func TestFramesShareACommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		self, err := n.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answers := apply(t, n, self, 1, 2)
		frames := [][]byte{answers[0], {0xff}, answers[1]}
		for from := range byte(2) {
			n.Present(ipam.Presence{Peer: peer.ID{from + 1}, Alive: true})
		}
		synctest.Wait()
		before := d.commits
		n.Deliver(func(yield func([]byte, int) bool) {
			for _, f := range frames {
				if !yield(f, 0) {
					t.Error("not all were taken")
					return
				}
			}
		})
		s, err := n.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Peers) != 3 {
			t.Errorf("%d peers are in the cluster, want 3: %+v", len(s.Peers), s.Peers)
		}
		if got := d.commits - before; got != 1 {
			t.Errorf("%d frames at once took %d commits", len(frames), got)
		}
		if n.Refused() != 1 {
			t.Errorf("%d frames were refused, want 1", n.Refused())
		}
	})
}

// TestFramesOfAHungDisk delivers long frames while a commit hangs: those that wait have
// so much memory at most, and once the disk is back further ones are taken.
func TestFramesOfAHungDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		self, err := n.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.hung = make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() { _, _ = n.RequestAddress(context.Background(), request("web")) })
		synctest.Wait()
		long := wire.Encode(nil, &wire.Frame{
			Header: wire.Header{From: peer.ID{1}, To: self.ID, Boot: 1, Nonce: 1},
			Body:   wire.Submit{Batch: make([]byte, 1<<20)},
		})
		deliver := func(frames int) (refused uint64) {
			before := n.Refused()
			for range frames {
				n.Deliver(func(yield func([]byte, int) bool) { yield(long, 0) })
			}
			return n.Refused() - before
		}
		if got := deliver(100); got < 30 || got > 40 {
			t.Errorf("of 100 frames of 1 MiB %d were refused, want all beyond 64 MiB", got)
		}
		close(d.hung)
		asking.Wait()
		synctest.Wait()
		if got := deliver(50); got != 0 {
			t.Errorf("%d frames were refused, and none waits", got)
		}
	})
}

// TestNetworkDoesNotWaitForTheDisk has frames and news of peers come while commits hang:
// who brings them goes on, with what is not the machine's.
func TestNetworkDoesNotWaitForTheDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		self, err := n.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n.Present(ipam.Presence{Peer: peer.ID{1}, Alive: true})
		answers := apply(t, n, self, 1)
		d.hung = make(chan struct{})
		brought := make(chan struct{})
		go func() {
			defer close(brought)
			n.Deliver(func(yield func([]byte, int) bool) { yield(answers[0], 0) })
			n.Present(ipam.Presence{Peer: peer.ID{2}, Alive: true})
			n.PresentSelf(1)
		}()
		synctest.Wait()
		select {
		case <-brought:
		default:
			t.Error("who brings frames waits for the disk")
		}
		close(d.hung)
		<-brought
		s, err := n.Status(t.Context())
		if err != nil || len(s.Peers) != 2 {
			t.Errorf("%d peers are in the cluster, want 2: %v", len(s.Peers), err)
		}
		n.Stop()
	})
}

// TestRefusedFramesAreLogged refuses frames: the log is told once a minute, also when
// somebody has set the clock back since.
func TestRefusedFramesAreLogged(t *testing.T) {
	for _, tt := range []struct {
		last  time.Duration // before now
		lines int
	}{{59 * time.Second, 0}, {time.Minute, 1}, {-time.Hour, 1}} {
		bubble.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			n, err := node.New(node.Config{
				Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))},
				Store:   &disk{records: machinetest.Disk{}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			n.ComplainedAt(time.Now().Add(-tt.last))
			for range 3 {
				n.Deliver(func(yield func([]byte, int) bool) { yield([]byte{0xff}, 0) })
			}
			if got := strings.Count(log.String(), "frame refused"); got != tt.lines {
				t.Errorf("%v after the last line there are %d, want %d", tt.last, got, tt.lines)
			}
		})
	}
}
