package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestRunTwice refuses to run again what has ended.
func TestRunTwice(t *testing.T) {
	inBubble(t, func(c *cluster) {
		p := c.start(1)
		p.stop()
		if err := p.Run(t.Context()); err == nil {
			t.Error("the second run is no error")
		}
		p.Send(idOf(2), p.frame(wire.Beat{}))
		p.Broadcast(p.frame(wire.Beat{}))
		if got := p.Status(); got.Self.IsValid() {
			t.Errorf("got %+v, want a closed network", got)
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
		if got := b.knows(a.id).SeedIndex; got != 1 {
			t.Errorf("the host of the list has seed %d, want 1", got)
		}
		a.crash()
		d := c.start(4, func(cfg *gossip.Config) { cfg.Join = nil })
		set(4)
		c.together(3*time.Minute, b, d)
		set() // what was known stays known
		time.Sleep(time.Minute)
		if got := b.knows(d.id).SeedIndex; got != 1 {
			t.Errorf("the new host of the list has seed %d, want 1", got)
		}
	})
}
