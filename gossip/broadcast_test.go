package gossip_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// measured notes the longest packet.
type measured struct {
	memberlist.Transport
	longest *atomic.Int64
}

func (m measured) WriteTo(b []byte, addr string) (time.Time, error) {
	if n := int64(len(b)); n > m.longest.Load() {
		m.longest.Store(n)
	}
	return m.Transport.WriteTo(b, addr)
}

// TestSize sends frames as long as they may be, and longer.
func TestSize(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var longest atomic.Int64
		peers := c.startAll(2, func(cfg *gossip.Config) {
			cfg.Label = "sixteen letters!"
			cfg.Keys = func() ([][]byte, error) { return [][]byte{key(1)}, nil }
			cfg.Transport = func(bind netip.AddrPort) (memberlist.Transport, error) {
				tr, err := c.net.Open(bind)
				return measured{tr, &longest}, err
			}
		})
		a, b := peers[0], peers[1]
		overhead := len(a.frame(wire.Submit{Batch: make([]byte, 1000)})) - 1000
		batch := make([]byte, gossip.MaxBroadcast-overhead)
		a.Broadcast(a.frame(wire.Submit{Batch: batch}))
		arrived := func(f got) bool {
			s, ok := f.Body.(wire.Submit)
			return ok && len(s.Batch) == len(batch)
		}
		c.until(10*time.Second, "the longest broadcast arrives", func() bool { return b.received(arrived) })
		for size := range 2000 { // alone, and two that fit together
			a.Send(b.id, a.frame(wire.Submit{Batch: make([]byte, size)}), a.frame(wire.Pull{After: uint64(size)}))
			c.until(time.Second, "a frame of any length arrives", func() bool {
				return b.received(func(f got) bool { return f.Body == wire.Pull{After: uint64(size)} })
			})
		}
		if got := longest.Load(); got < 1100 || got > 1200 {
			t.Errorf("the longest packet has %d bytes, want at most 1200, and not much less", got)
		}

		state := bytes.Repeat([]byte("snapshot"), (wire.MaxFrame-200)/8)
		a.Send(b.id, a.frame(wire.Snapshot{State: state}))
		c.until(10*time.Second, "the longest frame arrives", func() bool {
			return b.received(func(f got) bool {
				s, ok := f.Body.(wire.Snapshot)
				return ok && bytes.Equal(s.State, state)
			})
		})
		a.Broadcast(a.frame(wire.Submit{Batch: make([]byte, len(batch)+1)}))
		a.Broadcast(nil)
		a.SetHeartbeat(make([]byte, gossip.MaxBroadcast+1))
		a.Send(b.id, make([]byte, wire.MaxFrame+1))
		a.Send(b.id, nil)
		if got := a.Status().Counts.Oversize; got != 5 {
			t.Errorf("%d frames refused for their length, want 5", got)
		}
		if got := a.Status().Queued; got > 1 {
			t.Errorf("%d broadcasts are queued, the refused one among them", got)
		}
	})
}

// TestFlood broadcasts more than the network carries.
func TestFlood(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		for i := range 3000 {
			peers[0].Broadcast(peers[0].frame(wire.Pull{After: uint64(i)}))
		}
		got := peers[0].Status()
		if got.Queued > 1024 || got.Counts.BroadcastsDropped == 0 || got.Counts.Broadcast != 3000 {
			t.Errorf("got %+v, want at most 1024 queued and the rest counted", got)
		}
		c.until(3*time.Minute, "drained", func() bool { return peers[0].Status().Queued == 0 })
		if peers[1].gone() > 0 {
			t.Error("a peer was taken for dead during the flood")
		}
	})
}

// TestSpread tells one peer something new, with broadcasts and without.
func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		peers      int
		loss       float64
		broadcasts bool
		limit      time.Duration
	}{
		{2, 0, true, 5 * time.Second},
		{3, 0, true, 5 * time.Second},
		{9, 0, true, 5 * time.Second}, // the worst number for broadcasts below 10
		{9, 0.2, true, 10 * time.Second},
		{25, 0.05, true, 10 * time.Second},
		{3, 0, false, 10 * time.Second},
		{25, 0, false, 10 * time.Second},
	} {
		t.Run(fmt.Sprintf("peers=%d/loss=%v/broadcasts=%v", tt.peers, tt.loss, tt.broadcasts), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				peers := c.startAll(tt.peers)
				c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: tt.loss, Delay: 2 * time.Millisecond} })
				for _, p := range peers {
					p.broadcasts = tt.broadcasts
				}
				for slot := range uint64(5) {
					peers[int(slot)%len(peers)].set(slot + 1)
					c.agree(tt.limit, slot+1, peers...)
				}
			})
		})
	}
}

// TestBroadcast has broadcasts alone: nobody's heartbeat tells of them.
func TestBroadcast(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(10)
		for i := range 20 {
			broadcast := wire.Join{Name: peer.Name(fmt.Sprintf("broadcast-%d", i))}
			author := peers[i%len(peers)]
			author.Broadcast(author.frame(broadcast))
			c.until(5*time.Second, "heard by all", func() bool {
				for _, p := range peers {
					if p != author && !p.received(func(f got) bool { return f.Body == broadcast && f.From == author.id }) {
						return false
					}
				}
				return true
			})
		}
		c.until(10*time.Second, "not sent for ever", func() bool { return peers[0].Status().Queued == 0 })
	})
}

// TestDisseminateAtOnce has broadcasts leave when there are some, not when memberlist looks
// for it: a broadcast, also one of many, a new peer, and one that leaves.
func TestDisseminateAtOnce(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Delay: time.Millisecond} })
		peers := c.startAll(3)
		time.Sleep(time.Minute)
		var broadcasts []wire.Join
		say := func(i int) {
			broadcasts = append(broadcasts, wire.Join{Name: peer.Name(fmt.Sprintf("broadcast-%d", i))})
			peers[0].Broadcast(peers[0].frame(broadcasts[i]))
		}
		heard := func(broadcast wire.Join) bool {
			return !slices.ContainsFunc(peers[1:], func(p *node) bool {
				return !p.received(func(f got) bool { return f.Body == broadcast })
			})
		}
		say(0)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if !heard(broadcasts[0]) {
			t.Error("the first broadcast has not arrived at once")
		}
		began := time.Now()
		for i := range 20 {
			say(i + 1)
		}
		c.until(5*time.Second, "all broadcasts are there", func() bool {
			return !slices.ContainsFunc(broadcasts, func(broadcast wire.Join) bool { return !heard(broadcast) })
		})
		if took := time.Since(began); took > time.Second {
			t.Errorf("20 broadcasts that fit into a few packets took %v", took)
		}
		began = time.Now()
		one := c.start(4, func(cfg *gossip.Config) { cfg.Join = []string{at(2).String()} })
		c.together(time.Minute, append(slices.Clone(peers), one)...)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a new peer was known to all after %v", took)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		one.end()
		c.together(time.Minute, peers...)
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("that a peer leaves was known to all after %v", took)
		}
	})
}
