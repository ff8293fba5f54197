package gossip_test

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestPortBusy starts a peer while somebody else has its port.
func TestPortBusy(t *testing.T) {
	inBubble(t, func(c *cluster) {
		squatter, err := c.net.Listen(at(2))
		if err != nil {
			t.Fatal(err)
		}
		a, b := c.start(1), c.start(2)
		c.until(10*time.Second, "told", func() bool { return b.problem("network-closed", "10.0.0.2:7950 cannot be opened for peers") })
		b.Send(a.id, b.frame(wire.Beat{}))
		b.Broadcast(b.frame(wire.Beat{}))
		time.Sleep(time.Minute)
		if err := squatter.Shutdown(); err != nil {
			t.Fatal(err)
		}
		c.together(20*time.Second, a, b)
		if got := b.Status().Problems; len(got) > 0 {
			t.Errorf("problems: %+v", got)
		}
	})
}

// TestBindElsewhere starts a peer that is to listen at an address which its host does not have.
func TestBindElsewhere(t *testing.T) {
	inBubble(t, func(c *cluster) {
		p := c.start(1, func(cfg *gossip.Config) {
			cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) {
				return nil, &net.OpError{Op: "listen", Net: "tcp4", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}
			}
		})
		c.until(10*time.Second, "told", func() bool { return p.problem("network-closed", "cannot be opened for peers") })
		for _, problem := range p.Status().Problems {
			if want := "set RINGLET_BIND to an address that this host has, or to 0.0.0.0:7950 for all"; problem.Next != want {
				t.Errorf("advised %q, want %q", problem.Next, want)
			}
		}
	})
}
