package gossip_test

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
)

var figuresFlag = flag.Bool("figures", false, "print how fast and at what cost a slot reaches everybody also in large clusters")

// meter counts the bytes that a peer sends.
type meter struct {
	memberlist.Transport
	sent *atomic.Uint64
}

func (m meter) WriteTo(b []byte, addr string) (time.Time, error) {
	m.sent.Add(uint64(len(b)))
	return m.Transport.WriteTo(b, addr)
}

func (m meter) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := m.Transport.DialTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	return meteredConn{conn, m.sent}, nil
}

type meteredConn struct {
	net.Conn
	sent *atomic.Uint64
}

func (c meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(uint64(n))
	return n, err
}

// TestFigures prints, for clusters of several sizes, how long a slot takes to
// reach everybody and what it costs. It asserts that they all get it.
func TestFigures(t *testing.T) {
	sizes := []int{10}
	if *figuresFlag {
		sizes = append(sizes, 100, 200)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n, " peers"), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var sent atomic.Uint64
				peers := c.startAll(n, func(cfg *gossip.Config) {
					cfg.Join = []string{at(1).String(), at(2).String(), at(3).String()}
					cfg.Transport = func(bind netip.AddrPort) (memberlist.Transport, error) {
						tr, err := c.net.Open(bind)
						return meter{tr, &sent}, err
					}
				})
				for _, p := range peers {
					p.broadcasts = true
				}
				time.Sleep(5 * time.Minute) // what the start brought has settled
				before := sent.Load()
				time.Sleep(10 * time.Minute)
				idle := float64(sent.Load()-before) / 10
				var took []time.Duration
				var bytes float64
				for slot := range uint64(20) {
					before, began := sent.Load(), time.Now()
					peers[int(slot*7)%n].set(slot + 1)
					c.agree(30*time.Second, slot+1, peers...)
					took = append(took, time.Since(began))
					time.Sleep(20 * time.Second)
					bytes += float64(sent.Load()-before) - idle*time.Since(began).Minutes()
				}
				slices.Sort(took)
				fmt.Fprintf(t.Output(), "%d peers: a slot is known to all after %v (median), %v (worst of 20); it costs %.0f kB in all, %.2f kB a peer; idle %.1f kB a minute and peer\n",
					n, took[10].Round(time.Millisecond), took[19].Round(time.Millisecond), bytes/20/1000, bytes/20/1000/float64(n), idle/1000/float64(n))
			})
		})
	}
}

// TestMemberFigures prints, for clusters of several sizes, how long it takes
// until all know who has come, left or died. It asserts that they all get to.
func TestMemberFigures(t *testing.T) {
	sizes := []int{10}
	if *figuresFlag {
		sizes = append(sizes, 3, 100)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n, " peers"), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Delay: time.Millisecond} })
				began := time.Now()
				peers := c.startAll(n)
				start := time.Since(began)
				var came, left, died, returned []time.Duration
				for i := range 10 {
					began := time.Now()
					one := c.start(n+i+1, func(cfg *gossip.Config) { cfg.Join = []string{at(i%n + 1).String()} })
					// Whom the word misses, rarely, hears of it by a heartbeat or an exchange: that may
					// take two minutes.
					c.together(3*time.Minute, append(slices.Clone(peers), one)...)
					came = append(came, time.Since(began))
					time.Sleep(10 * time.Second)
					began = time.Now()
					if i%2 > 0 {
						one.crash()
						c.together(3*time.Minute, peers...)
						died = append(died, time.Since(began))
					} else {
						one.end()
						c.together(time.Minute, peers...)
						left = append(left, time.Since(began))
						<-one.done
						returned = append(returned, time.Since(began))
					}
					time.Sleep(time.Minute)
				}
				worst := func(took []time.Duration) string {
					slices.Sort(took)
					return fmt.Sprintf("%v (median), %v (worst)", took[len(took)/2].Round(time.Millisecond), slices.Max(took).Round(time.Millisecond))
				}
				fmt.Fprintf(t.Output(), "%d peers: all that start at once are together after %v; one more is after %s; that it leaves is known to all after %s, and has ended after %s; that it died after %s\n",
					n, start, worst(came), worst(left), worst(returned), worst(died))
			})
		})
	}
}
