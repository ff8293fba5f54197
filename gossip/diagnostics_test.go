package gossip_test

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestSilent joins at a host that takes connections and says nothing: one that is
// stopped, or behind a network that loses long packets, or a program that is no peer and
// waits for the rest of a request, as a web server does.
func TestSilent(t *testing.T) {
	inBubble(t, func(c *cluster) {
		if _, err := c.net.Listen(at(1)); err != nil {
			t.Fatal(err)
		}
		p := c.start(2)
		c.until(20*time.Second, "told", func() bool {
			return p.problem("seed-unreachable", "10.0.0.1:7950 in RINGLET_JOIN cannot be reached: it accepts connections, but does not answer")
		})
		if got := p.Status().Problems; !strings.HasPrefix(got[0].Next, "check which program has the port there") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestCopied starts two peers with one identity.
func TestCopied(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		twin := c.start(4, func(cfg *gossip.Config) { cfg.ID, cfg.Nonce = peers[2].id, 77 })
		// The original is not told here: no two members of one name ever speak.
		c.until(time.Minute, "told", func() bool {
			return peers[0].problem("identity-conflict", "is at 10.0.0.3:7950 and also claims to be at 10.0.0.4:7950") &&
				twin.problem("identity-conflict", "a host at 10.0.0.3:7950 uses the ID of this peer, which is at 10.0.0.4:7950")
		})
		// What is sent to one reaches both: the cores must find out that there are two.
		told := func(n *node) bool {
			return n.received(func(f got) bool { return f.Body == wire.Pull{After: 7} && f.From == peers[0].id })
		}
		peers[0].Send(twin.id, peers[0].frame(wire.Pull{After: 7}))
		c.until(time.Second, "both hear", func() bool { return told(peers[2]) && told(twin) })
		twin.crash()
		c.until(5*time.Minute, "over", func() bool { return len(peers[0].Status().Problems) == 0 })
	})
}

// intruder is a memberlist of somebody else's, which sends what it likes. It
// notices when it is probed, as members are.
type intruder struct {
	state  []byte
	probed *atomic.Bool
}

func (intruder) NodeMeta(int) []byte { return []byte("not a peer's") }

func (intruder) NotifyMsg([]byte) {}

func (intruder) GetBroadcasts(_, _ int) [][]byte { return nil }

func (i intruder) LocalState(bool) []byte { return i.state }

func (intruder) MergeRemoteState(_ []byte, _ bool) {}

func (i intruder) AckPayload() []byte {
	i.probed.Store(true)
	return nil
}

func (intruder) NotifyPingComplete(*memberlist.Node, time.Duration, []byte) {}

// TestIntruder lets in nobody that is no peer, and survives what it says.
func TestIntruder(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(2)
		transport, err := c.net.Listen(at(66))
		if err != nil {
			t.Fatal(err)
		}
		cfg := memberlist.DefaultLANConfig()
		cfg.Name, cfg.Label, cfg.Transport, cfg.LogOutput = "host-66", "test", transport, t.Output()
		cfg.EnableCompression = false // peers compress nothing, and take nothing that is compressed
		other := intruder{bytes.Repeat([]byte{1}, 5000), &atomic.Bool{}}
		cfg.Delegate, cfg.Ping = other, other
		list, err := memberlist.Create(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := list.Shutdown(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := list.Join([]string{at(1).String()}); err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(list.Members(), func(n *memberlist.Node) bool { return n.Port == at(1).Port() && n.Addr.Equal(at(1).Addr().AsSlice()) })
		if first < 0 {
			t.Fatal("the intruder does not see the peer that it joined")
		}
		for _, b := range [][]byte{{1}, []byte("two words"), bytes.Repeat([]byte{0}, 33)} {
			if err := list.SendReliable(list.Members()[first], b); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		for _, p := range peers {
			if got := p.Status(); got.Alive != 1 || got.Known != 1 {
				t.Errorf("got %+v, want to know the other peer alone", got)
			}
		}
		if other.probed.Load() {
			t.Error("the intruder is a member")
		}
		if got := peers[0].Status().Counts.Undecodable; got < 4 { // three messages, and the state at least once
			t.Errorf("%d undecodable frames, want 4 or more", got)
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
