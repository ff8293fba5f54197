package gossip_test

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestPartition cuts a cluster until its parts have given each other up.
func TestPartition(t *testing.T) {
	for _, tt := range []struct {
		peers, first int
		cut          time.Duration
	}{
		{2, 1, time.Minute},
		{10, 5, 15 * time.Second},
		{10, 5, 2 * time.Minute},
		{10, 1, 10 * time.Minute},
		{10, 9, time.Hour},
	} {
		t.Run(fmt.Sprintf("%dof%d/%v", tt.first, tt.peers, tt.cut), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				peers := c.startAll(tt.peers)
				c.split(tt.first)
				if tt.cut >= time.Minute {
					c.until(tt.cut, "given up", func() bool { return peers[tt.peers-1].Status().Alive == tt.peers-tt.first-1 })
				}
				time.Sleep(tt.cut)
				peers[0].set(1)
				c.heal()
				c.together(3*time.Minute, peers...)
				c.agree(10*time.Second, 1, peers...)
			})
		})
	}
}

// TestRestart crashes a peer and starts it again at another address, or at the
// same one, after a while. Most are back soon. What gossip misses by chance
// waits for an exchange of states.
func TestRestart(t *testing.T) {
	for _, tt := range []struct {
		addr  int
		after time.Duration
		leave bool
		soon  time.Duration
	}{
		{5, 0, false, time.Second},
		{5, time.Minute, false, time.Second},
		{50, time.Second, false, 20 * time.Second}, // until the old address is given up, and 5 s more
		{50, 8 * time.Second, false, 15 * time.Second},
		{50, time.Minute, false, time.Second},
		{50, 0, true, time.Second},
	} {
		t.Run(fmt.Sprintf("at=%d/after=%v/left=%v", tt.addr, tt.after, tt.leave), func(t *testing.T) {
			const runs, most = 7, 4
			early := 0
			for range runs {
				inBubble(t, func(c *cluster) {
					peers := c.startAll(5)
					if tt.leave {
						peers[4].stop()
					} else {
						peers[4].crash()
					}
					time.Sleep(tt.after)
					peers[4] = c.start(5, func(cfg *gossip.Config) {
						cfg.Bind, cfg.Advertise, cfg.Boot = at(tt.addr), at(tt.addr), 2
					})
					began := time.Now()
					c.together(3*time.Minute, peers...)
					if time.Since(began) <= tt.soon {
						early++
					}
				})
			}
			if early < most {
				t.Errorf("only %d of %d restarts were known to all within %v", early, runs, tt.soon)
			}
		})
	}
}

// TestWiped starts a peer without its database where it was before.
func TestWiped(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(5)
		old := peers[4].id
		peers[4].crash()
		peers[4] = c.start(5, func(cfg *gossip.Config) { cfg.ID = idOf(99) })
		c.together(2*time.Minute, peers...)
		if p := peers[0].knows(old); p.Alive || p.ID != old {
			t.Errorf("the former self: got %+v, want a peer that is not alive", p)
		}
		peers[0].Forget(old)
		if got := len(peers[0].Contacts()); got != 4 {
			t.Errorf("%d contacts after one was forgotten, want 4", got)
		}
	})
}

// TestAllSeedsGone keeps a cluster together, and its restarted peers in it,
// without the hosts of the list.
func TestAllSeedsGone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(5)
		peers[0].stop()
		c.together(time.Minute, peers[1:]...)
		remembered := peers[4].Contacts()
		if len(remembered) != 4 {
			t.Fatalf("%d contacts, want 4: %+v", len(remembered), remembered)
		}
		peers[4].crash()
		peers[4] = c.start(5, func(cfg *gossip.Config) { cfg.Boot, cfg.Remembered = 2, remembered })
		c.together(time.Minute, peers[1:]...)
		c.until(15*time.Minute, "the seed is missed", func() bool {
			return peers[4].problem("seed-unreachable", "10.0.0.1:7950 in RINGLET_JOIN cannot be reached")
		})
		peers[0] = c.start(1, func(cfg *gossip.Config) { cfg.Boot = 2 })
		c.until(2*time.Minute, "the seed is found", func() bool { return len(peers[4].Status().Problems) == 0 })
	})
}

// TestDeadSeeds has one live host among many that swallow everything.
func TestDeadSeeds(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
			if to.Compare(at(100)) >= 0 && from != to {
				return memnet.Cut()
			}
			return memnet.Link{}
		})
		join := []string{at(1).String()}
		for i := range 50 {
			join = append(join, at(100+i).String())
		}
		a := c.start(1)
		b := c.start(2, func(cfg *gossip.Config) { cfg.Join = join })
		c.together(10*time.Second, a, b)
	})
}

// TestDeadAmongTheMissing cuts a cluster in two that knows of many hosts which are off:
// those that are there find each other all the same.
func TestDeadAmongTheMissing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		links := func(cut bool) {
			c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
				off := to.Compare(at(100)) >= 0
				if off || cut && (from.Compare(at(2)) <= 0) != (to.Compare(at(2)) <= 0) {
					return memnet.Cut()
				}
				return memnet.Link{}
			})
		}
		links(false)
		peers := c.startAll(4, func(cfg *gossip.Config) {
			for i := range 40 {
				cfg.Remembered = append(cfg.Remembered, gossip.Contact{ID: idOf(100 + i), Addr: at(100 + i)})
			}
		})
		for range 5 {
			links(true)
			c.until(2*time.Minute, "given up", func() bool { return peers[0].Status().Alive == 1 && peers[3].Status().Alive == 1 })
			time.Sleep(2 * time.Minute)
			links(false)
			c.together(time.Minute, peers...)
		}
	})
}

// TestSearchIsBounded has few hosts that know of many which are off: each looks for some
// of them at a time.
func TestSearchIsBounded(t *testing.T) {
	inBubble(t, func(c *cluster) {
		const most = 32
		var mu sync.Mutex
		var tried []time.Time // by the first host, since they are together
		noting := false
		c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
			if to.Compare(at(100)) < 0 {
				return memnet.Link{}
			}
			mu.Lock()
			defer mu.Unlock()
			if noting && from == at(1) {
				tried = append(tried, time.Now())
			}
			return memnet.Cut()
		})
		peers := c.startAll(2, func(cfg *gossip.Config) {
			for i := range 10 * most {
				cfg.Remembered = append(cfg.Remembered, gossip.Contact{ID: idOf(100 + i), Addr: at(100 + i)})
			}
		})
		c.together(time.Minute, peers...)
		time.Sleep(5 * time.Minute)
		mu.Lock()
		noting = true
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if n := len(tried); n < 8*most {
			t.Errorf("%d attempts in ten minutes", n)
		}
		for i := most; i < len(tried); i++ {
			if within := tried[i].Sub(tried[i-most]); within < 10*time.Second {
				t.Fatalf("%d attempts within %v", most+1, within)
			}
		}
	})
}

// TestSendToTheDead reaches a peer that was given up, where it was last.
func TestSendToTheDead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		c.split(2)
		c.until(2*time.Minute, "given up", func() bool { return peers[0].Status().Alive == 1 })
		c.heal()
		peers[0].Send(peers[2].id, peers[0].frame(wire.Join{Name: "a"}))
		c.until(10*time.Second, "arrived", func() bool {
			return peers[2].received(func(f got) bool { return f.Body == wire.Join{Name: "a"} && f.From == peers[0].id })
		})
		peers[0].Send(idOf(1234), peers[0].frame(wire.Beat{}))
		if got := peers[0].Status().Counts.Unknown; got != 1 {
			t.Errorf("%d frames for strangers, want 1", got)
		}
	})
}

// TestSeedIndexes gives the hosts that found a cluster together their seeds.
func TestSeedIndexes(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		indexes := map[peer.ID][]int{}
		peers := c.startAll(4, func(cfg *gossip.Config) {
			cfg.Join = []string{at(3).String(), at(2).Addr().String(), at(1).String(), at(3).Addr().String()}
			cfg.SeedIndex = func(seed int) {
				mu.Lock()
				defer mu.Unlock()
				indexes[cfg.ID] = append(indexes[cfg.ID], seed)
			}
		})
		for i, want := range []int{1, 2, 3, 0} {
			if got := peers[i].OwnSeedIndex(); got != want {
				t.Errorf("peer %d has seed %d by itself, want %d", i+1, got, want)
			}
			mu.Lock()
			if got := indexes[peers[i].id]; want == 0 && len(got) > 0 || want > 0 && !slices.Equal(got, []int{want}) {
				t.Errorf("peer %d got the seed indexes %d, want %d once, or nothing for none", i+1, got, want)
			}
			mu.Unlock()
			if i == 1 {
				continue
			}
			if got := peers[1].knows(peers[i].id).SeedIndex; got != want {
				t.Errorf("peer %d has seed %d, want %d", i+1, got, want)
			}
			peers[i].Send(peers[1].id, peers[i].frame(wire.Join{Name: "seed"}))
			c.until(10*time.Second, "arrived from the seed", func() bool {
				return peers[1].received(func(f got) bool {
					return f.From == peers[i].id && f.Body == wire.Join{Name: "seed"} && f.seed == want
				})
			})
		}
	})
}

// TestHostMoves gives a host another address under its running peer.
func TestHostMoves(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		var host atomic.Int64
		host.Store(4)
		mover := c.start(4, func(cfg *gossip.Config) {
			cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("0.0.0.0:7950"), netip.AddrPort{}
			gossip.SetHost(cfg, func() []netip.Addr {
				if n := host.Load(); n > 0 {
					return []netip.Addr{at(int(n)).Addr()}
				}
				return nil
			}, nil)
			cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) { return c.net.Open(at(int(host.Load()))) }
		})
		seenAt := func(n int) func() bool {
			return func() bool {
				return peers[0].knows(mover.id).Alive && peers[0].knows(mover.id).Addr == at(n) && mover.Status().Alive == 3
			}
		}
		c.until(time.Minute, "seen", seenAt(4))
		host.Store(0)
		c.until(time.Minute, "told", func() bool {
			return mover.problem("network-closed", "no address at which others could reach it") && mover.Status().Alive == 0 && mover.gone() >= 3
		})
		host.Store(44)
		c.until(time.Minute, "seen at the new address", seenAt(44))
		if got := mover.Status().Self; got != at(44) {
			t.Errorf("advertises %v, want %v", got, at(44))
		}
	})
}

// TestUnknownSender has a peer be away for the moment in which another one joins
// or comes back elsewhere, too short for anybody to miss it. It learns of that
// one when it hears it, long before an exchange by chance, and can answer.
func TestUnknownSender(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("back=%v", back), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				peers := c.startAll(5)
				deaf := peers[4]
				if back {
					former := c.start(6)
					c.together(time.Minute, append(peers, former)...)
					former.crash()
					c.together(time.Minute, peers...)
				}
				time.Sleep(2 * time.Minute) // nobody joins any more, as who is new does for a while
				c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
					if from == deaf.cfg.Advertise || to == deaf.cfg.Advertise {
						return memnet.Cut()
					}
					return memnet.Link{}
				})
				late := c.start(6, func(cfg *gossip.Config) { cfg.Bind, cfg.Advertise, cfg.Boot = at(60), at(60), 2 })
				c.until(3*time.Second, "the sixth is there", func() bool { return peers[0].knows(late.id).Alive && late.knows(deaf.id).Alive })
				time.Sleep(3 * time.Second) // what spreads has spread
				c.heal()
				if deaf.knows(late.id).Alive {
					t.Fatal("the word has come by another way")
				}
				hello := wire.Join{Name: "late"}
				late.Send(deaf.id, late.frame(hello))
				c.until(10*time.Second, "the sixth is known", func() bool { return deaf.knows(late.id).Alive })
				deaf.Send(late.id, deaf.frame(hello))
				c.until(10*time.Second, "it gets an answer", func() bool {
					return late.received(func(f got) bool { return f.Body == hello && f.From == deaf.id })
				})
			})
		})
	}
}
