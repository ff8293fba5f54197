package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
)

// TestStartBeforeTheNetwork has a host whose own name stands for a loopback address,
// as in many an /etc/hosts, and which starts before it has an address and a resolver.
// Alone it stays where it is; once it has an address that is where others reach it.
func TestStartBeforeTheNetwork(t *testing.T) {
	for _, own := range []string{"127.0.0.1", "127.0.1.1"} { // Debian's is on no interface
		t.Run(own, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var up atomic.Bool
				var opened atomic.Int64
				other := c.start(1)
				early := c.start(2, func(cfg *gossip.Config) {
					cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("0.0.0.0:7950"), netip.AddrPort{}
					cfg.Join = []string{"host-1", "host-2"}
					addrs := func() []netip.Addr {
						have := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
						if up.Load() {
							have = append(have, at(2).Addr())
						}
						return have
					}
					gossip.SetHost(cfg, addrs, func(_ context.Context, name string) ([]netip.Addr, error) {
						switch {
						case name == "host-2":
							return []netip.Addr{netip.MustParseAddr(own)}, nil
						case up.Load():
							return []netip.Addr{at(1).Addr()}, nil
						}
						return nil, errors.New("no such host")
					})
					cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) {
						opened.Add(1)
						return c.net.Open(at(2))
					}
				})
				time.Sleep(5 * time.Minute)
				if got := opened.Load(); got != 1 {
					t.Errorf("the network was opened %d times", got)
				}
				up.Store(true)
				early.cfg.Advertise = at(2)
				c.together(time.Minute, other, early)
			})
		})
	}
}
