package gossip_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/peer"
)

// TestSummary has each peer set a number, of which all others hear, whether or
// not any broadcast gets through.
func TestSummary(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		heard := make(map[[2]peer.ID]uint64) // by who heard it, and of whom
		peers := c.startAll(9, func(cfg *gossip.Config) {
			self := cfg.ID
			cfg.Summary = func(from peer.ID, summary uint64) {
				mu.Lock()
				defer mu.Unlock()
				heard[[2]peer.ID{self, from}] = summary
			}
		})
		for i, p := range peers {
			p.SetSummary(uint64(1000 + i))
		}
		// A round of probes takes 12 seconds. Who was the first in one may be the last in the next, and who came
		// in the midst of the first may be left out of it.
		c.until(40*time.Second, "all summaries heard", func() bool {
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
