package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
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

// TestResolverIsLate has a host with two addresses, of which one is that of the default
// route, and the other that of its name, which nobody can look up as it starts.
func TestResolverIsLate(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var opened atomic.Int64
		var up, gone atomic.Bool
		outside := netip.MustParseAddr("192.168.7.2")
		other := c.start(1)
		late := c.start(2, func(cfg *gossip.Config) {
			cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("0.0.0.0:7950"), netip.AddrPort{}
			cfg.Join = []string{"host-1", "host-2", "host-9"} // the last one is gone for good
			gossip.SetHost(cfg, func() []netip.Addr { return []netip.Addr{outside, at(2).Addr()} },
				func(_ context.Context, name string) ([]netip.Addr, error) {
					switch {
					case up.Load() && name == "host-1":
						return []netip.Addr{at(1).Addr()}, nil
					case up.Load() && name == "host-2":
						return []netip.Addr{at(2).Addr()}, nil
					}
					return nil, errors.New("no such host")
				})
			gossip.SetRoutes(cfg, func(netip.Addr) (netip.Addr, error) {
				if gone.Load() {
					return netip.Addr{}, errors.New("network is unreachable")
				}
				return outside, nil
			})
			cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) {
				opened.Add(1)
				return c.net.Open(at(2))
			}
		})
		time.Sleep(5 * time.Minute)
		if got := late.Status().Self.Addr(); got != outside || opened.Load() != 1 {
			t.Errorf("the host advertises %v, and has opened its network %d times", got, opened.Load())
		}
		up.Store(true)
		late.cfg.Advertise = at(2)
		c.together(time.Minute, other, late)
		gone.Store(true) // what was chosen with knowledge stays
		time.Sleep(5 * time.Minute)
		c.together(0, other, late)
		if got := opened.Load(); got != 2 {
			t.Errorf("the network was opened %d times, want 2", got)
		}
	})
}

// TestAddressMovesToAnother has a host lose one of its addresses, not that which it
// advertises, to a host beside it, as one that a pair of hosts has in turn: it
// looks for others there, and is not to be met there itself.
func TestAddressMovesToAnother(t *testing.T) {
	for name, asked := range map[string]bool{"somebody asks": true, "nobody asks": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var moved atomic.Bool
				former := c.start(1, func(cfg *gossip.Config) {
					cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("0.0.0.0:7950"), at(1)
					cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) { return c.net.Open(at(1)) }
					cfg.Join = []string{at(2).String()}
					gossip.SetHost(cfg, func() []netip.Addr {
						if moved.Load() {
							return []netip.Addr{at(1).Addr()}
						}
						return []netip.Addr{at(1).Addr(), at(2).Addr()}
					}, nil)
				})
				meet := func(what, want string) {
					if !asked {
						return
					}
					if _, err := former.Meet(c.t.Context(), at(2).String()); err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("at an %s: %v", what, err)
					}
				}
				time.Sleep(time.Minute)
				if got := former.OwnSeedIndex(); got != 1 {
					t.Errorf("the host has seed %d", got)
				}
				meet("own address", "is this host itself")
				moved.Store(true)
				meet("address that was its own", "nothing listens on the port")
				other := c.start(2, func(cfg *gossip.Config) { cfg.Join = nil })
				c.together(20*time.Second, former, other)
				if got := former.OwnSeedIndex(); got != 0 {
					t.Errorf("the host has seed %d, which is the other's", got)
				}
			})
		})
	}
}

// TestHostMovesWithoutItsKeys gives a host another address while its keys cannot be read,
// or are gone: at the new one the last ones stay in use, too.
func TestHostMovesWithoutItsKeys(t *testing.T) {
	for name, err := range map[string]error{"unreadable": errors.New("permission denied"), "gone": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var host atomic.Int64
				host.Store(2)
				place := &keys{}
				place.set(nil, key(1))
				other := c.start(1, func(cfg *gossip.Config) { cfg.Keys = func() ([][]byte, error) { return [][]byte{key(1)}, nil } })
				mover := c.start(2, func(cfg *gossip.Config) {
					cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("0.0.0.0:7950"), netip.AddrPort{}
					cfg.Keys = place.read
					gossip.SetHost(cfg, func() []netip.Addr { return []netip.Addr{at(int(host.Load())).Addr()} }, nil)
					cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) { return c.net.Open(at(int(host.Load()))) }
				})
				mover.cfg.Advertise = at(2)
				c.together(time.Minute, other, mover)
				place.set(err)
				host.Store(3)
				mover.cfg.Advertise = at(3)
				c.together(time.Minute, other, mover)
				c.until(15*time.Second, "told", func() bool { return mover.problem("keys-unreadable", "stay in use") })
				if got := mover.Status(); got.Keys != 1 || len(got.Problems) != 1 {
					t.Errorf("got %+v, want the last key in use, and one problem", got)
				}
			})
		})
	}
}
