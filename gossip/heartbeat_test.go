package gossip_test

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/peer"
)

// TestDigest has each peer set a number, of which all others hear, whether or
// not any broadcast gets through.
func TestDigest(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		heard := make(map[[2]peer.ID]uint64) // by who heard it, and of whom
		peers := c.startAll(9, func(cfg *gossip.Config) {
			self := cfg.ID
			cfg.Digest = func(from peer.ID, digest uint64) {
				mu.Lock()
				defer mu.Unlock()
				heard[[2]peer.ID{self, from}] = digest
			}
		})
		for i, p := range peers {
			p.SetDigest(uint64(1000 + i))
		}
		// A round of probes takes 12 seconds. Who was the first in one may be the last in the next, and who came
		// in the midst of the first may be left out of it.
		c.until(40*time.Second, "all digests heard", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i, from := range peers {
				for _, to := range peers {
					if from != to && heard[[2]peer.ID{to.id, from.id}] != uint64(1000+i) {
						return false
					}
				}
			}
			return true
		})
		for _, p := range peers {
			if got := p.Status().Counts.Undecodable; got > 0 {
				t.Errorf("%d frames could not be read", got)
			}
		}
	})
}

// TestGarbageHeartbeat has a peer whose heartbeat is none.
func TestGarbageHeartbeat(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		peers[0].set(1)
		c.agree(time.Minute, 1, peers...)
		peers[2].SetHeartbeat([]byte("garbage"))
		c.until(time.Minute, "counted", func() bool { return peers[0].Status().Counts.Undecodable > 0 })
		if peers[0].gone() > 0 {
			t.Error("a peer was taken for dead for its garbage")
		}
	})
}

// TestNoHeartbeat has peers that have not said how far they are.
func TestNoHeartbeat(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3, func(cfg *gossip.Config) { cfg.Name = peer.Name("quiet") })
		peers[1].SetHeartbeat(nil)
		time.Sleep(time.Minute)
		if got := peers[0].Status().Counts; got.Undecodable > 0 {
			t.Errorf("got %+v, want nothing undecodable", got)
		}
	})
}

// TestHeartbeats counts how often two peers that have nothing else to say hear from
// each other over streams: six times a minute by the timer, and four times by
// exchanges of their states.
func TestHeartbeats(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: 1} })
		peers := c.startAll(2)
		time.Sleep(2 * time.Minute)
		before := peers[0].Status().Counts.Received
		time.Sleep(20 * time.Minute)
		if got := peers[0].Status().Counts.Received - before; got < 110 || got > 170 {
			t.Errorf("got %d heartbeats in 20 minutes, want about 140", got)
		}
	})
}
