package gossip_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestSlowReceiver has a peer whose Deliver takes ten seconds.
func TestSlowReceiver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(5)
		slow := peers[2]
		slow.mu.Lock()
		slow.block = 10 * time.Second
		slow.mu.Unlock()
		for range 60 {
			for range 100 {
				peers[0].Send(slow.id, peers[0].frame(wire.Beat{}))
			}
			time.Sleep(time.Second)
		}
		for _, p := range peers {
			if p.gone() > 0 {
				t.Error("the slow peer, or another, was taken for dead")
			}
		}
		if got := slow.Status().Counts; got.Overrun == 0 || got.Received == 0 {
			t.Errorf("got %+v, want frames delivered and frames dropped", got)
		}
		peers[1].set(1) // passes the frames that wait
		c.agree(time.Minute, 1, peers...)
		slow.mu.Lock()
		slow.block = 0
		slow.mu.Unlock()
		c.until(time.Minute, "caught up", func() bool { return slow.Status().Counts.Received >= 4096 })
	})
}

// TestStalledReceiver has a peer to which connections do not get through.
func TestStalledReceiver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		c.net.SetLink(func(_, to netip.AddrPort) memnet.Link { return memnet.Link{NoDial: to == at(2)} })
		long := wire.Submit{Batch: make([]byte, 50_000)}
		for range 1000 {
			peers[0].Send(peers[1].id, peers[0].frame(long))
		}
		peers[0].Send(peers[1].id, peers[0].frame(wire.Join{Name: "short"}))
		peers[0].Send(peers[2].id, peers[0].frame(long))
		c.until(time.Second, "the other peer is not delayed, nor is what needs no connection", func() bool {
			return peers[2].received(func(f got) bool { return f.Body.Type() == long.Type() }) &&
				peers[1].received(func(f got) bool { return f.Body == wire.Join{Name: "short"} })
		})
		// Some get their turn, the rest is soon too old.
		c.until(2*time.Second, "given up", func() bool { return peers[0].Status().Counts.Dropped >= 990 })
		c.until(10*time.Second, "failed", func() bool {
			got := peers[0].Status().Counts
			return got.Failed > 0 && got.Failed+got.Dropped == 1000
		})
	})
}
