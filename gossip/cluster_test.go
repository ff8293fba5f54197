package gossip_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// cluster is some peers on a network in memory, in a bubble.
type cluster struct {
	t     *testing.T
	net   *memnet.Net
	peers []*node
}

// node is one peer, with a stand-in for the core above it: it knows one
// number, shows it in its heartbeat, and takes over any greater one.
type node struct {
	*gossip.Gossip
	c    *cluster
	id   peer.ID
	cfg  gossip.Config
	end  context.CancelFunc
	done chan struct{}

	mu         sync.Mutex
	slot       uint64
	broadcasts bool          // broadcast what is new
	block      time.Duration // how long each delivery takes
	frames     []got
	presence   map[peer.ID]gossip.Presence
	left       int // how often somebody was reported to be gone
}

type got struct {
	*wire.Frame
	seed int
}

// inBubble runs a test on a network in memory, and clears up: memberlist's last
// goroutines end some time after its shutdown.
func inBubble(t *testing.T, test func(c *cluster)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: memnet.New()}
		t.Cleanup(func() {
			for _, n := range c.peers {
				n.end()
			}
			for _, n := range c.peers {
				<-n.done
			}
			time.Sleep(2 * time.Minute)
		})
		test(c)
	})
}

// at is the address of the n-th host.
func at(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), gossip.DefaultPort)
}

func idOf(n int) peer.ID {
	id := peer.ID{0: 1}
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// start starts the n-th peer, which joins at the first unless told otherwise.
func (c *cluster) start(n int, change ...func(*gossip.Config)) *node {
	c.t.Helper()
	p := &node{c: c, done: make(chan struct{}), presence: make(map[peer.ID]gossip.Presence)}
	p.cfg = gossip.Config{
		ID: idOf(n), Name: peer.Name(fmt.Sprintf("host-%d", n)), Boot: 1, Nonce: uint64(n),
		Bind: at(n), Advertise: at(n), Join: []string{at(1).String()}, Label: "test",
		Deliver: each(p.deliver), Presence: p.note, Logger: slog.New(slog.DiscardHandler), Transport: c.net.Open,
	}
	for _, f := range change {
		f(&p.cfg)
	}
	p.id = p.cfg.ID
	var err error
	if p.Gossip, err = gossip.New(p.cfg); err != nil {
		c.t.Fatal(err)
	}
	p.SetHeartbeat(p.frame(wire.Beat{}))
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); err != nil {
			c.t.Error(err)
		}
	}()
	c.peers = append(c.peers, p)
	return p
}

// startAll starts the peers 1 to n, and waits until they see each other.
func (c *cluster) startAll(n int, change ...func(*gossip.Config)) []*node {
	c.t.Helper()
	var started []*node
	for i := range n {
		started = append(started, c.start(i+1, change...))
	}
	c.together(2*time.Minute, started...)
	return started
}

// crash ends a peer without a word.
func (n *node) crash() {
	n.c.net.Crash(n.cfg.Advertise)
	n.stop()
}

// stop ends a peer, which says goodbye.
func (n *node) stop() {
	n.end()
	<-n.done
}

// frame is what this peer would say.
func (n *node) frame(body wire.Body) []byte {
	return wire.Encode(nil, &wire.Frame{
		Header: wire.Header{From: n.cfg.ID, Boot: n.cfg.Boot, Nonce: n.cfg.Nonce, Slot: n.slot},
		Body:   body,
	})
}

// set tells this peer a new number.
func (n *node) set(slot uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slot = slot
	n.SetHeartbeat(n.frame(wire.Beat{}))
	if n.broadcasts {
		n.Broadcast(n.frame(wire.Pull{After: slot}))
	}
}

// each delivers one frame after the other.
func each(deliver func(frame []byte, seed int)) func(iter.Seq2[[]byte, int]) {
	return func(arrived iter.Seq2[[]byte, int]) {
		for frame, seed := range arrived {
			deliver(frame, seed)
		}
	}
}

func (n *node) deliver(frame []byte, seed int) {
	f, err := wire.Decode(frame)
	if err != nil {
		n.c.t.Errorf("%v was delivered %d bytes: %v", n.id.Short(), len(frame), err)
		return
	}
	n.mu.Lock()
	block, mine := n.block, n.slot
	_, isHint := f.Body.(wire.Join)
	first := !slices.ContainsFunc(n.frames, func(have got) bool { return isHint && have.Body == f.Body && have.From == f.From })
	n.frames = append(n.frames, got{f, seed})
	n.mu.Unlock()
	time.Sleep(block)
	if isHint && first {
		n.Broadcast(frame) // receivers relay, memberlist does not
	}
	switch {
	case f.Slot > mine:
		n.set(f.Slot)
	case f.Slot < mine && f.From != n.id:
		n.mu.Lock()
		answer := n.frame(wire.Beat{})
		n.mu.Unlock()
		n.Send(f.From, answer)
	}
}

func (n *node) note(p gossip.Presence) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.presence[p.ID] = p
	if !p.Alive {
		n.left++
	}
}

// knows reports what this peer was told of another.
func (n *node) knows(id peer.ID) gossip.Presence {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.presence[id]
}

func (n *node) number() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.slot
}

func (n *node) gone() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// received reports whether such a frame was delivered.
func (n *node) received(like func(got) bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.frames, like)
}

// problem reports whether the status has such a problem with such a text.
func (n *node) problem(code, text string) bool {
	return slices.ContainsFunc(n.Status().Problems, func(p gossip.Problem) bool {
		return p.Code == code && strings.Contains(p.Text, text)
	})
}

// until lets virtual time pass until something holds. The limit is a bound of
// the design, not of a machine: nothing in a bubble is slow.
func (c *cluster) until(limit time.Duration, what string, holds func() bool) {
	c.t.Helper()
	begun := time.Now()
	for {
		synctest.Wait()
		if holds() {
			return
		}
		if time.Since(begun) > limit {
			for _, p := range c.peers[:min(len(c.peers), 12)] {
				c.t.Logf("%v: %+v", p.id.Short(), p.Status())
			}
			c.t.Fatalf("after %v: not %s", limit, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// together waits until these peers see each other alive, and nobody else.
func (c *cluster) together(limit time.Duration, peers ...*node) {
	c.t.Helper()
	c.until(limit, fmt.Sprintf("%d peers together", len(peers)), func() bool {
		for _, p := range peers {
			if p.Status().Alive != len(peers)-1 {
				return false
			}
			for _, q := range peers {
				seen := p.knows(q.id)
				if p != q && (!seen.Alive || seen.Boot != q.cfg.Boot || seen.Addr != q.cfg.Advertise || seen.Name != q.cfg.Name) {
					return false
				}
			}
		}
		return true
	})
}

// agree waits until these peers know a number.
func (c *cluster) agree(limit time.Duration, slot uint64, peers ...*node) {
	c.t.Helper()
	c.until(limit, fmt.Sprintf("number %d everywhere", slot), func() bool {
		return !slices.ContainsFunc(peers, func(p *node) bool { return p.number() != slot })
	})
}

// split cuts the network between the peers 1 to n and the rest.
func (c *cluster) split(n int) {
	c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
		if (from.Compare(at(n)) <= 0) != (to.Compare(at(n)) <= 0) {
			return memnet.Cut()
		}
		return memnet.Link{}
	})
}

func (c *cluster) heal() {
	c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{} })
}
