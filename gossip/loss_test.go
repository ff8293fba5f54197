package gossip_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/wire"
)

// lossy has every packet lost with that probability, also those of streams.
func (c *cluster) lossy(loss float64) {
	c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link {
		return memnet.Link{Loss: loss, StreamLoss: loss, Delay: 500 * time.Microsecond}
	})
}

// numbers are those in the frames that arrived, in order.
func (n *node) numbers() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []uint64
	for _, f := range n.frames {
		if p, ok := f.Body.(wire.Pull); ok {
			all = append(all, p.After)
		}
	}
	return all
}

// numbered is a frame with a number.
func (n *node) numbered(i int) []byte { return n.frame(wire.Pull{After: uint64(i)}) }

// TestLoss sends frames while packets are lost. Each arrives, and once; but a
// message is tried for a second alone, in some six packets, and of a hundred one
// is given up in half a percent of runs where a fifth of the packets is lost.
func TestLoss(t *testing.T) {
	for loss, mayMiss := range map[float64]int{0: 0, 0.05: 0, 0.2: 2} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				peers := c.startAll(2)
				time.Sleep(2 * time.Minute) // nobody joins any more, as who is new does for a while
				c.lossy(loss)
				before, streams := c.net.Sent()
				const n = 100
				for i := range n {
					peers[0].Send(peers[1].id, peers[0].numbered(i))
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(8 * time.Second)
				got := peers[1].numbers()
				slices.Sort(got)
				if once := slices.Compact(slices.Clone(got)); len(once) < n-mayMiss || len(once) < len(got) {
					t.Errorf("got %v", got)
				}
				counts := peers[0].Status().Counts
				packets, opened := c.net.Sent()
				opened -= min(opened, streams)
				const exchanges = 2 // of states by chance, one of each peer at most
				switch {
				case loss > 0 && counts.Repeated == 0:
					t.Error("nothing was sent again, although packets were lost")
				case loss == 0 && (counts.Repeated > 0 || peers[1].Status().Counts.Duplicate > 0 || opened > exchanges):
					t.Errorf("%d were sent again and %d streams opened, although nothing was lost", counts.Repeated, opened)
				case loss == 0 && packets-before > 2*n+60: // probes, too
					t.Errorf("%d packets for %d frames, want one and an ack for each", packets-before, n)
				}
			})
		})
	}
}

// TestLongLoss sends frames that are longer than a packet while packets are
// lost. Each arrives, and once. How long it takes is printed.
func TestLongLoss(t *testing.T) {
	for _, loss := range []float64{0, 0.05, 0.1} {
		for _, size := range []int{2_000, 8_000, 16_000} {
			t.Run(fmt.Sprint(loss, "/", size), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					peers := c.startAll(2)
					c.lossy(loss)
					const n = 50
					var took []time.Duration
					packets, streams := c.net.Sent()
					for i := range n {
						begun := time.Now()
						peers[0].Send(peers[1].id, peers[0].frame(wire.Snapshot{State: make([]byte, size)}), peers[0].numbered(i))
						for len(peers[1].numbers()) == i && time.Since(begun) < 10*time.Second {
							time.Sleep(time.Millisecond)
						}
						took = append(took, time.Since(begun))
						time.Sleep(2 * time.Second) // for what comes twice
					}
					if got := peers[1].numbers(); len(got) != n || !slices.IsSorted(got) {
						t.Errorf("got %v", got)
					}
					sent, opened := c.net.Sent()
					counts := peers[0].Status().Counts
					switch pieces := size/1100 + 1; {
					case loss > 0 && counts.Repeated == 0:
						t.Error("nothing was sent again, although packets were lost")
					case loss == 0 && (counts.Repeated > 0 || opened-streams > 10): // some to compare notes
						t.Errorf("%d were sent again and %d streams opened, although nothing was lost", counts.Repeated, opened-streams)
					case loss == 0 && sent-packets > n*(pieces+1)+250: // probes, too
						t.Errorf("%d packets for %d messages, want %d and an ack for each", sent-packets, n, pieces)
					}
					slices.Sort(took)
					fmt.Fprintf(t.Output(), "%.0f %% lost, %d bytes: %v (median), %v (ninth of ten), %v (worst of %d), %d streams\n", 100*loss, size, took[n/2], took[9*n/10], took[n-1], n, opened-streams)
				})
			})
		}
	}
}

// TestTogether sends frames together, of which one may be too long to go as a
// datagram with the others, or at all. They arrive in order.
func TestTogether(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(2)
		for round := range 20 {
			var frames [][]byte
			var want []uint64
			for i := range 5 {
				want = append(want, uint64(i))
				frames = append(frames, peers[0].numbered(i))
				if i == round%5 {
					frames = append(frames, peers[0].frame(wire.Snapshot{State: make([]byte, 100*round)}))
				}
			}
			before := len(peers[1].numbers())
			peers[0].Send(peers[1].id, frames...)
			c.until(time.Second, "arrived", func() bool { return len(peers[1].numbers()) == before+5 })
			if got := peers[1].numbers()[before:]; !slices.Equal(got, want) {
				t.Errorf("with %d bytes among them: got %v, want %v", 100*round, got, want)
			}
		}
	})
}

// TestDeafPeer has a peer that no packet reaches, or from which none comes.
func TestDeafPeer(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent=%v", silent), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				peers := c.startAll(2)
				c.net.SetLink(func(from, _ netip.AddrPort) memnet.Link {
					if (from == at(2)) == silent {
						return memnet.Link{Loss: 1}
					}
					return memnet.Link{}
				})
				arrived := func(n int) func() bool { return func() bool { return len(peers[1].numbers()) == n } }
				for i := range 5 {
					peers[0].Send(peers[1].id, peers[0].numbered(i))
					limit := time.Second
					if i > 2 {
						limit = 0 // it is known by now
					}
					c.until(limit, "arrived, over a stream", arrived(i+1))
					time.Sleep(time.Second)
				}
				c.until(0, "arrived once", arrived(5))
				c.heal()
				peers[0].Send(peers[1].id, peers[0].numbered(5))
				time.Sleep(time.Second)
				_, before := c.net.Sent()
				peers[0].Send(peers[1].id, peers[0].numbered(6))
				c.until(0, "arrived at once", arrived(7))
				if _, after := c.net.Sent(); after > before {
					t.Error("a stream was opened to a peer that datagrams reach again")
				}
			})
		})
	}
}
