package peers

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

// labNetwork is a network on the pool of newPool.
var labNetwork = ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.0.0/16")}

// run has a container of a host take an address of the pool.
func (c *cluster) run(h *clusterHost, id string) netip.Addr {
	c.t.Helper()
	g, err := h.RequestAddress(c.t.Context(), ipam.AddressRequest{
		Network: labNetwork, Purpose: ipam.ForContainer, Name: id[:2], ID: id,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return g.Address.Addr()
}

// identityOf returns what a host shows as the identity of an address, with its labels.
func (h *clusterHost) identityOf(a netip.Addr) string {
	for _, holding := range h.shared.Holdings(a) {
		labels, _ := h.shared.Labels(holding.Identity)
		return fmt.Sprint(holding.Identity, labels)
	}
	return ""
}

// Containers of five hosts that start at once have one number for each label set, on all hosts the same. A host that is
// cut off hands out addresses without them, and has them when it is back. What no host has any more is collected.
func TestIdentities(t *testing.T) {
	lasts(t)
	bubble.Test(t, func(t *testing.T) {
		id := func(i int) string { return strings.Repeat(fmt.Sprintf("%02x", i), 32) }
		labels := map[string]string{}
		for i := range 40 {
			labels[id(i)] = fmt.Sprintf("app=a;tier=%d", i%3)
		}
		labels[id(30)], labels[id(31)] = "app=alone", "app=apart"
		c := newPoolOf(t, 5, labels)
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Delay: time.Millisecond} })
		held := map[int]netip.Addr{}
		for i := range 30 {
			held[i] = c.run(c.hosts[i%5], id(i))
		}
		shown := func(sets int, hosts ...*clusterHost) func() bool {
			return func() bool {
				numbers := map[string]string{}
				for _, h := range hosts {
					for i, a := range held {
						got, want := h.identityOf(a), numbers[labels[id(i)]]
						if got == "" || strings.HasPrefix(got, "0") || strings.HasSuffix(got, "map[]") || want != "" && got != want {
							return false
						}
						numbers[labels[id(i)]] = got
					}
					if len(h.keys(directory.IdentityKeys("ringlet"))) != sets {
						return false
					}
				}
				return len(numbers) == sets
			}
		}
		c.until(30*time.Second, "each set has one number on all hosts", shown(3, c.hosts...))
		if n := len(c.hosts[4].keys(directory.IdentityUseKeys("ringlet"))); n != 15 {
			t.Errorf("%d hosts and sets, and not 15", n)
		}

		apart := c.hosts[4]
		c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
			if from == apart.addr || to == apart.addr {
				return memnet.Cut()
			}
			return memnet.Link{}
		})
		time.Sleep(20 * time.Second)
		held[31] = c.run(apart, id(31))
		held[30] = c.run(c.hosts[0], id(30))
		c.until(30*time.Second, "the others have a number for a new set", func() bool {
			return strings.HasSuffix(c.hosts[1].identityOf(held[30]), "map[app:alone]")
		})
		for i := 32; i < 37; i++ { // while the cluster does not answer the question for a number
			begun := time.Now()
			held[i] = c.run(apart, id(i))
			if took := time.Since(begun); took > 0 {
				t.Errorf("an address took %v while a number was awaited", took)
			}
			time.Sleep(time.Second)
		}
		if got := apart.identityOf(held[31]); got != "0map[]" && got != "0 map[]" {
			t.Errorf("the host that is cut off shows %s", got)
		}
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{} })
		c.until(5*time.Minute, "back, it has numbers, too", shown(5, c.hosts...))

		if err := c.hosts[0].ReleaseAddress(t.Context(), labNetwork, held[30]); err != nil {
			t.Fatal(err)
		}
		delete(held, 30)
		time.Sleep(14 * time.Minute)
		if n := len(c.hosts[3].keys(directory.IdentityKeys("ringlet"))); n != 5 {
			t.Errorf("after one sweep at most %d sets are left", n)
		}
		c.until(32*time.Minute, "what no host has is collected", shown(4, c.hosts...))
	})
}
