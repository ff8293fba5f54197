package gossip_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
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
		t.Run(fmt.Sprintf("peers=%d/loss=%v/hints=%v", tt.peers, tt.loss, tt.broadcasts), func(t *testing.T) {
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

// TestBroadcast has broadcasts alone: nobody's beat tells of them.
func TestBroadcast(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(10)
		for i := range 20 {
			broadcast := wire.Join{Name: peer.Name(fmt.Sprintf("hint-%d", i))}
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

// TestNewsAtOnce has news leave when there is some, not when memberlist looks
// for it: a broadcast, also one of many, a new peer, and one that leaves.
func TestNewsAtOnce(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Delay: time.Millisecond} })
		peers := c.startAll(3)
		time.Sleep(time.Minute)
		var broadcasts []wire.Join
		say := func(i int) {
			broadcasts = append(broadcasts, wire.Join{Name: peer.Name(fmt.Sprintf("hint-%d", i))})
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
			t.Error("the first hint has not arrived at once")
		}
		began := time.Now()
		for i := range 20 {
			say(i + 1)
		}
		c.until(5*time.Second, "all hints are there", func() bool {
			return !slices.ContainsFunc(broadcasts, func(broadcast wire.Join) bool { return !heard(broadcast) })
		})
		if took := time.Since(began); took > time.Second {
			t.Errorf("20 hints that fit into a few packets took %v", took)
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

// TestNoUDPBetweenFamilies has a peer at an IPv4 address, whose RINGLET_BIND may be 0.0.0.0,
// and one at an IPv6 address: it may be no firewall that keeps packets from it.
func TestNoUDPBetweenFamilies(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: 1} })
		four := c.start(1)
		six := c.start(2, func(cfg *gossip.Config) {
			cfg.Bind = netip.MustParseAddrPort("[fd00::2]:7950")
			cfg.Advertise = cfg.Bind
		})
		told := func(advice bool) {
			time.Sleep(90 * time.Second)
			for _, p := range []*node{four, six} {
				list := p.Status().Problems
				if len(list) != 1 || strings.Contains(list[0].Next, ", and set RINGLET_BIND=[::]:7950 on all hosts") != advice {
					t.Errorf("got %+v, want the advice: %v", list, advice)
				}
			}
		}
		told(true)
		c.start(3)
		c.start(4, func(cfg *gossip.Config) {
			cfg.Bind = netip.MustParseAddrPort("[fd00::4]:7950")
			cfg.Advertise = cfg.Bind
		})
		told(false) // it does not reach its like either
	})
}

// TestNoUDP has streams alone.
func TestNoUDP(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: 1} })
		peers := c.startAll(5)
		time.Sleep(90 * time.Second)
		for _, p := range peers {
			if !p.problem("udp-silent", "UDP does not get through") {
				t.Errorf("the silence of UDP is not told: %+v", p.Status().Problems)
			}
			if p.gone() > 0 {
				t.Error("a peer that answers over TCP was reported to be gone")
			}
		}
		peers[0].set(1)
		c.agree(time.Minute, 1, peers...)
		c.heal()
		c.until(2*time.Minute, "no problem", func() bool { return len(peers[0].Status().Problems) == 0 })
	})
}

// TestBeats counts how often two peers that have nothing else to say hear from
// each other over streams: six times a minute by the timer, and four times by
// exchanges of their states.
func TestBeats(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: 1} })
		peers := c.startAll(2)
		time.Sleep(2 * time.Minute)
		before := peers[0].Status().Counts.Received
		time.Sleep(20 * time.Minute)
		if got := peers[0].Status().Counts.Received - before; got < 110 || got > 170 {
			t.Errorf("got %d beats in 20 minutes, want about 140", got)
		}
	})
}

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

// TestLeave sees that a peer which stops says so, and is not missed for long.
func TestLeave(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(5)
		peers[4].stop()
		c.until(5*time.Second, "gone everywhere", func() bool {
			for _, p := range peers[:4] {
				if p.Status().Alive != 3 {
					return false
				}
			}
			return true
		})
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

// TestSeats gives the hosts that found a cluster together their seats.
func TestSeats(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		told := map[peer.ID][]int{}
		peers := c.startAll(4, func(cfg *gossip.Config) {
			cfg.Join = []string{at(3).String(), at(2).Addr().String(), at(1).String(), at(3).Addr().String()}
			cfg.Seated = func(seat int) {
				mu.Lock()
				defer mu.Unlock()
				told[cfg.ID] = append(told[cfg.ID], seat)
			}
		})
		for i, want := range []int{1, 2, 3, 0} {
			if got := peers[i].OwnSeat(); got != want {
				t.Errorf("peer %d has seat %d by itself, want %d", i+1, got, want)
			}
			mu.Lock()
			if got := told[peers[i].id]; want == 0 && len(got) > 0 || want > 0 && !slices.Equal(got, []int{want}) {
				t.Errorf("peer %d was told the seats %d, want %d once, or nothing for none", i+1, got, want)
			}
			mu.Unlock()
			if i == 1 {
				continue
			}
			if got := peers[1].knows(peers[i].id).Seat; got != want {
				t.Errorf("peer %d has seat %d, want %d", i+1, got, want)
			}
			peers[i].Send(peers[1].id, peers[i].frame(wire.Join{Name: "seat"}))
			c.until(10*time.Second, "arrived from the seat", func() bool {
				return peers[1].received(func(f got) bool {
					return f.From == peers[i].id && f.Body == wire.Join{Name: "seat"} && f.seat == want
				})
			})
		}
	})
}

// TestManyPeers starts a large cluster at once.
func TestManyPeers(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("200 peers take long with the race detector, and are left out with -short")
	}
	inBubble(t, func(c *cluster) {
		peers := c.startAll(200, func(cfg *gossip.Config) {
			cfg.Join = []string{at(1).String(), at(2).String(), at(3).String()}
		})
		peers[7].set(1)
		c.agree(20*time.Second, 1, peers...)
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

// TestNames finds the cluster by a name that is unknown at first, then stands
// for two hosts of which one is dead, and then for another host.
func TestNames(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		var hosts []netip.Addr
		set := func(n ...int) {
			mu.Lock()
			defer mu.Unlock()
			hosts = nil
			for _, i := range n {
				hosts = append(hosts, at(i).Addr())
			}
		}
		byName := func(cfg *gossip.Config) {
			cfg.Join = []string{"Seeds.Example."}
			gossip.SetHost(cfg, nil, func(_ context.Context, name string) ([]netip.Addr, error) {
				mu.Lock()
				defer mu.Unlock()
				if name != "seeds.example." || len(hosts) == 0 {
					return nil, errors.New("no such host")
				}
				return hosts, nil
			})
		}
		a, b := c.start(1), c.start(2, byName)
		c.until(10*time.Second, "told", func() bool {
			return b.problem("seed-unresolved", "seeds.example. in RINGLET_JOIN does not resolve to an address: no such host")
		})
		set(99, 1)
		c.together(20*time.Second, a, b)
		if got := b.Status().Problems; len(got) > 0 {
			t.Errorf("problems: %+v", got)
		}
		if got := b.knows(a.id).Seat; got != 1 {
			t.Errorf("the host of the list has seat %d, want 1", got)
		}
		a.crash()
		d := c.start(4, func(cfg *gossip.Config) { cfg.Join = nil })
		set(4)
		c.together(3*time.Minute, b, d)
		set() // what was known stays known
		time.Sleep(time.Minute)
		if got := b.knows(d.id).Seat; got != 1 {
			t.Errorf("the new host of the list has seat %d, want 1", got)
		}
	})
}
