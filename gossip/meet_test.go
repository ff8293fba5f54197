package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
)

// TestMeet names a peer to another one that has no list of hosts.
func TestMeet(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		alone := c.start(4, func(cfg *gossip.Config) { cfg.Join = nil })
		time.Sleep(time.Minute)
		if got := alone.Status().Alive; got != 0 {
			t.Fatalf("%d are alive before anybody was named", got)
		}
		for range 2 {
			met, err := alone.Meet(c.t.Context(), "10.0.0.2")
			if err != nil || len(met) != 1 || met[0].ID != peers[1].id || met[0].Addr != at(2) || met[0].Name != "host-2" {
				t.Errorf("got %+v, %v, want the second peer", met, err)
			}
		}
		c.together(10*time.Second, append(peers, alone)...)
		c.net.Crash(at(4))
		alone.stop()
		c.together(2*time.Minute, peers...)
	})
}

// TestMeetSomewhereElse names an address of which the peer there says another.
func TestMeetSomewhereElse(t *testing.T) {
	inBubble(t, func(c *cluster) {
		a, b := c.start(1), c.start(2)
		c.together(10*time.Second, a, b)
		other := c.start(3, func(cfg *gossip.Config) {
			cfg.Join = nil
			gossip.SetHost(cfg, nil, func(_ context.Context, name string) ([]netip.Addr, error) {
				if name != "seed.example" {
					return nil, errors.New("no such host")
				}
				return []netip.Addr{at(99).Addr(), at(1).Addr()}, nil // one of them is dead
			})
		})
		time.Sleep(time.Second)
		met, err := other.Meet(c.t.Context(), "Seed.Example:7950")
		if err != nil || len(met) != 1 || met[0].ID != a.id {
			t.Errorf("got %+v, %v, want the first peer", met, err)
		}
		if _, err := other.Meet(c.t.Context(), "seed.exampel"); err == nil || err.Error() != "seed.exampel does not resolve to an address: no such host: check the name, and that the resolver of this host knows it" {
			t.Errorf("a name that nobody knows: got %v", err)
		}
	})
}

// TestMeetNobody names what cannot be met, and is told why.
func TestMeetNobody(t *testing.T) {
	inBubble(t, func(c *cluster) {
		opens := make(chan struct{})
		a := c.start(1, func(cfg *gossip.Config) {
			cfg.Join = nil
			cfg.Transport = func(bind netip.AddrPort) (memberlist.Transport, error) {
				<-opens
				return c.net.Open(bind)
			}
		})
		if _, err := a.Meet(c.t.Context(), "10.0.0.2"); err == nil || err.Error() != "the network of this host is just being opened: try again in a few seconds" {
			t.Errorf("too early: got %v", err)
		}
		close(opens)
		c.start(3, func(cfg *gossip.Config) { cfg.Join, cfg.Label = nil, "another" })
		c.net.SetLink(func(_, to netip.AddrPort) memnet.Link {
			if to == at(9) {
				return memnet.Cut()
			}
			return memnet.Link{}
		})
		time.Sleep(time.Second)
		for _, tt := range []struct {
			where, want string
			mistake     bool
		}{
			{"10.0.0.1", "10.0.0.1:7950 is this host itself: name another one", true},
			{"10.0.0.1:seven", `"10.0.0.1:seven": the port is not a number from 1 to 65535: name it as host, or as host:port`, true},
			{"host a", `"host a" names no host: name it as host, or as host:port`, true},
			{"10.0.0.2", "no host could be met at 10.0.0.2:7950: the host is up, but nothing listens on the port: start ringlet there, or correct the port", false},
			{"10.0.0.9", "no host could be met at 10.0.0.9:7950: it does not answer: check that the host is up, and open the port for TCP and UDP in its firewall", false},
			{"10.0.0.3", "no host could be met at 10.0.0.3:7950: it closes the connection without an answer: it has another key, is in another cluster, or is not ringlet", false},
		} {
			begun := time.Now()
			met, err := a.Meet(c.t.Context(), tt.where)
			_, mistake := errors.AsType[*gossip.AddressError](err)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || mistake != tt.mistake || len(met) > 0 {
				t.Errorf("%s: got %v, %v\nwant %s", tt.where, met, err, tt.want)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%s: took %v", tt.where, took)
			}
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		if _, err := a.Meet(ctx, "10.0.0.9"); err == nil || !strings.Contains(err.Error(), "it has not answered in time") {
			t.Errorf("with a deadline: got %v", err)
		}
	})
}
