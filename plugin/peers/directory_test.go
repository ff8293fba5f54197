package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/entry"
)

// keys is what a host shows below a prefix: values by key.
func (h *clusterHost) keys(prefix string) map[string]string {
	out := map[string]string{}
	list, _ := h.shared.List(prefix, "", 1<<20, 1<<30)
	for _, item := range list {
		out[item.Key] += string(item.Value)
	}
	return out
}

// alike reports whether these hosts show the same, so many addresses among it.
// The heartbeat is another one every minute, and is on its way for a part of it.
func alike(addresses int, hosts ...*clusterHost) bool {
	shown := func(h *clusterHost) map[string]string {
		all := h.keys("ringlet/")
		delete(all, directory.HeartKey("ringlet"))
		return all
	}
	want := shown(hosts[0])
	for _, h := range hosts {
		if len(h.keys(directory.AddressKeys("ringlet"))) != addresses || !cmp.Equal(want, shown(h)) {
			return false
		}
	}
	return true
}

// hold has a host hold an address of the pool.
func (c *cluster) hold(h *clusterHost, holder string) netip.Addr {
	c.t.Helper()
	g, err := h.Client(c.t.Context(), ipam.ClientRequest{Pool: "lab", ID: holder})
	if err != nil {
		c.t.Fatal(err)
	}
	return g.Address.Addr()
}

// newPool makes a cluster of n hosts with a pool.
func newPool(t *testing.T, n int) *cluster { t.Helper(); return newPoolOf(t, n, nil) }

// newPoolOf is newPool, with the label sets of containers by ID.
func newPoolOf(t *testing.T, n int, labels map[string]string) *cluster {
	t.Helper()
	c := found(&cluster{t: t, net: memnet.New(), labels: labels}, n)
	c.lab("10.50.0.0/16")
	return c
}

// lab makes the pool that the hosts use.
func (c *cluster) lab(cidr string) {
	c.t.Helper()
	if _, _, err := c.hosts[0].CreatePool(c.t.Context(), netip.MustParsePrefix(cidr), "lab"); err != nil {
		c.t.Fatal(err)
	}
	c.until(10*time.Second, "told of the pool, and of its name", func() bool {
		return !slices.ContainsFunc(c.hosts, func(h *clusterHost) bool {
			return !slices.ContainsFunc(c.status(h).Pools, func(p ipam.PoolStatus) bool { return p.Name == "lab" })
		})
	})
}

// lasts skips a test of long virtual times in the race lane: the race detector
// of Go 1.26 crashes over timers in bubbles (golang/go#76691), the sooner the
// more of them there are.
func lasts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: virtual times of half an hour, which the race detector does not stand")
	}
}

// What one host does is seen on all, within seconds, also while packets are
// lost: addresses that are taken and freed, pools, the hosts themselves.
func TestDirectory(t *testing.T) {
	for loss, soon := range map[float64]time.Duration{0: 10 * time.Second, 0.2: time.Minute} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newPool(t, 5)
				c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link {
					return memnet.Link{Loss: loss, StreamLoss: loss, Delay: time.Millisecond}
				})
				c.until(2*time.Minute, "alike at first", func() bool { return alike(0, c.hosts...) })
				var held []netip.Addr
				for i := range 40 {
					held = append(held, c.hold(c.hosts[i%5], fmt.Sprint("device-", i)))
				}
				c.until(soon, "told of what was taken", func() bool { return alike(40, c.hosts...) })
				for i, a := range held {
					for _, h := range c.hosts {
						got := h.shared.Holdings(a)
						if len(got) != 1 || got[0].Name != fmt.Sprint("device-", i) || got[0].Node != fmt.Sprint("host-", i%5+1) || got[0].Kind != "client" {
							t.Fatalf("%v is told to be %+v", a, got)
						}
					}
				}
				for i, a := range held[:30] {
					if _, err := c.hosts[i%5].Free(t.Context(), ipam.FreeRequest{Address: a}); err != nil {
						t.Fatal(err)
					}
				}
				c.until(soon, "told of what was freed", func() bool { return alike(10, c.hosts...) })

				all := c.hosts[4].keys("ringlet/")
				for key, want := range map[string]string{
					"ringlet/state/nodes/v1/ringlet/host-1":            `"address":"10.0.0.1:7950"`,
					"ringlet/state/nodes/v1/ringlet/host-5":            `"pool":"10.50.0.0/16","ranges":["10.50.`,
					"ringlet/state/pools/v1/ringlet/10.50.0.0/16":      `"host-3":`,
					"ringlet/state/pools/v1/ringlet/names/lab":         `{"pool":"10.50.0.0/16"}`,
					"ringlet/.heartbeat/ringlet":                       `"node":"host-`,
					"ringlet/state/ip/v1/ringlet/" + held[39].String(): `"pool":"10.50.0.0/16","node":"host-5","state":"held"`,
				} {
					if !strings.Contains(all[key], want) {
						t.Errorf("%s is %s, want %s in it", key, all[key], want)
					}
				}
			})
		})
	}
}

// A host that is gone for good goes from every copy when its lease ends, one
// that was only cut off comes back by itself, and what it freed meanwhile does
// not.
func TestDirectoryOfLostHosts(t *testing.T) {
	lasts(t)
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 5)
		var held []netip.Addr
		for i := range 50 {
			held = append(held, c.hold(c.hosts[i%5], fmt.Sprint("device-", i)))
		}
		c.until(time.Minute, "alike", func() bool { return alike(50, c.hosts...) })
		apart, dead := c.hosts[3], c.hosts[4]
		c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
			if from == apart.addr || to == apart.addr {
				return memnet.Cut()
			}
			return memnet.Link{}
		})
		c.net.Crash(dead.addr)
		dead.end()
		cut := time.Now()
		if _, err := apart.Free(t.Context(), ipam.FreeRequest{Address: held[3]}); err != nil {
			t.Fatal(err)
		}
		rest := c.hosts[:3]
		time.Sleep(9 * time.Minute)
		if !alike(50, rest...) {
			t.Fatalf("%v after the cut there are %d addresses", time.Since(cut), len(rest[0].keys(directory.AddressKeys("ringlet"))))
		}
		c.until(replica.Lease, "without those that are gone", func() bool { return alike(30, rest...) })
		if over := time.Since(cut); over > replica.Lease+time.Second {
			t.Errorf("the last lease ended %v after the cut", over)
		}
		if got := len(apart.keys(directory.AddressKeys("ringlet"))); got != 9 {
			t.Errorf("the host that is cut off shows %d addresses, want its own 9", got)
		}
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{} })
		c.until(2*time.Minute, "with the one that was cut off", func() bool { return alike(39, append(rest, apart)...) })
	})
}

// A host to which no changes come says so, and names the command that shows which hosts do not answer. When they do again the
// problem ends.
func TestDirectoryIsLate(t *testing.T) {
	lasts(t)
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 8)
		c.until(time.Minute, "alike at first", func() bool { return alike(0, c.hosts...) })
		isNoVoter := func(h *clusterHost) bool { st := c.status(h); return !slices.Contains(st.Voters, st.Self.ID) }
		apart := c.hosts[slices.IndexFunc(c.hosts, isNoVoter)] // a voter would renew the heartbeat itself
		late := entry.Late(apart.shared, slog.New(slog.DiscardHandler))
		if p, wrong := late.Problem(); wrong {
			t.Errorf("at first: %+v", p)
		}
		c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
			if from == apart.addr || to == apart.addr {
				return memnet.Cut()
			}
			return memnet.Link{}
		})
		c.until(5*time.Minute, "the problem is there", func() bool {
			p, wrong := late.Problem()
			return wrong && strings.Contains(p.Next, "start or reconnect the hosts that ringlet peers shows as unreachable")
		})
		for _, p := range c.status(apart).Peers {
			if p.ID != c.status(apart).Self.ID && p.Reachable {
				t.Errorf("ringlet peers shows %+v", p)
			}
		}
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{} })
		c.until(3*time.Minute, "the problem is over", func() bool { _, wrong := late.Problem(); return !wrong })
	})
}

// Where no UDP comes through nobody hears of digests or broadcasts, and peers
// compare all the same.
func TestDirectoryWithoutUDP(t *testing.T) {
	lasts(t)
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 3)
		c.until(time.Minute, "alike at first", func() bool { return alike(0, c.hosts...) })
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: 1} })
		time.Sleep(time.Minute)
		for i := range 3 {
			c.hold(c.hosts[i], fmt.Sprint("device-", i))
		}
		c.until(time.Minute, "told of what was taken", func() bool { return alike(3, c.hosts...) })
		time.Sleep(2 * replica.Lease)
		if !alike(3, c.hosts...) || c.hosts[0].shared.Stats().Peers != 3 {
			t.Errorf("the leases do not last: %+v", c.hosts[0].shared.Stats())
		}
	})
}

// A host that leaves for good takes back what it said.
func TestDirectoryOfLeavers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 4)
		c.hold(c.hosts[0], "printer")
		c.until(time.Minute, "alike", func() bool { return alike(1, c.hosts...) })
		leaver, rest := c.hosts[3], c.hosts[:3]
		if len(rest[0].keys(directory.NodeKeys("ringlet"))) != 4 {
			t.Fatal("not all hosts are known")
		}
		if err := leaver.Leave(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		c.until(2*time.Minute, "told", func() bool {
			return alike(1, rest...) && len(rest[0].keys(directory.NodeKeys("ringlet"))) == 3
		})
	})
}

// A host that starts anew shows what it has now, and nothing of what it had
// said before.
func TestDirectoryAfterRestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 3)
		var held []netip.Addr
		for i := range 30 {
			held = append(held, c.hold(c.hosts[i%3], fmt.Sprint("device-", i)))
		}
		c.until(time.Minute, "alike", func() bool { return alike(30, c.hosts...) })
		before := c.hosts[2]
		before.end()
		join := []string{hostAddr(1).String(), hostAddr(2).String(), hostAddr(3).String()}
		after := c.startIn(before.dir, 3, join)
		now := []*clusterHost{c.hosts[0], c.hosts[1], after}
		c.until(time.Minute, "ready again", func() bool { return c.status(after).State == ipam.Ready })
		if _, err := after.Free(t.Context(), ipam.FreeRequest{Address: held[2]}); err != nil {
			t.Fatal(err)
		}
		c.until(time.Minute, "alike again", func() bool { return alike(29, now...) })
		if node := c.hosts[0].keys(directory.NodeKeys("ringlet") + "host-3"); !strings.Contains(fmt.Sprint(node), `"boot":2`) {
			t.Errorf("it is told to be %v", node)
		}
	})
}

// Nothing that arrives for the directory reaches the node, and nothing that is
// no frame of this cluster the directory.
func TestDirectoryTakesOnlyItsOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 3)
		c.until(time.Minute, "alike", func() bool { return alike(0, c.hosts...) })
		sent := c.hosts[0].shared.Stats().Sent + c.hosts[1].shared.Stats().Sent
		if sent == 0 {
			t.Error("the hosts have said nothing to each other")
		}
		for i, h := range c.hosts {
			if n := h.Refused(); n > 0 {
				t.Errorf("the node of host %d refused %d frames", i+1, n)
			}
			if st := h.shared.Stats(); st.Dropped > 0 || st.Peers != 3 {
				t.Errorf("host %d: %+v", i+1, st)
			}
		}
	})
}

// What the events say is what a comparison of everything finds: where nothing
// happens a renewal changes no key, and costs next to nothing.
func TestDirectoryAtRest(t *testing.T) {
	lasts(t)
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 3)
		for i := range 1200 { // more than are compared at a time
			c.hold(c.hosts[i%2], fmt.Sprint("device-", i))
		}
		network := ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.0.0/16")}
		if _, err := c.hosts[2].RequestAddress(t.Context(), ipam.AddressRequest{
			Network: network, Purpose: ipam.ForContainer, Name: "web", ID: strings.Repeat("4f", 32), MAC: ipam.MAC{2, 0, 0, 0, 0, 7},
		}); err != nil {
			t.Fatal(err)
		}
		c.until(time.Minute, "alike", func() bool { return alike(1201, c.hosts...) })
		time.Sleep(10 * time.Second)
		last, before := c.hosts[0].shared.Last(), c.hosts[0].shared.Stats()
		time.Sleep(20 * time.Minute) // four renewals of each
		if !alike(1201, c.hosts...) {
			t.Error("the hosts do not show the same any more")
		}
		changes := c.hosts[0].shared.Watch(last)
		list, _, err := changes.Kept()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Key != directory.HeartKey("ringlet") {
				t.Errorf("%s became %s", e.Key, e.Value)
			}
		}
		if len(list) < 19 || len(list) > 21 {
			t.Errorf("%d heartbeats in 20 minutes", len(list))
		}
		after := c.hosts[0].shared.Stats()
		sent := after.Sent - before.Sent
		fmt.Fprintf(t.Output(), "in 20 minutes at rest a host sends %d bytes to others, besides broadcasts\n", sent)
		if sent > 100<<10 {
			t.Errorf("a host at rest has sent %d bytes", sent)
		}
	})
}

// What is removed on one host goes on all, and each host sets its own again within 10
// seconds: all keys, and one alone. A key that no host stands for stays away.
func TestRemoveKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newPool(t, 3)
		for i := range 12 {
			c.hold(c.hosts[i%3], fmt.Sprint("device-", i))
		}
		c.until(time.Minute, "alike at first", func() bool { return alike(12, c.hosts...) })
		want := c.hosts[0].keys("ringlet/state/")
		heart := directory.HeartKey("ringlet")
		for _, rm := range []struct {
			key   string
			below bool
			keys  int
		}{
			{"ringlet/", true, len(want) + 2},
			{directory.AddressKeys("ringlet") + "10.50.0.1", false, 1},
			{directory.NodeKeys("ringlet") + "host-2", false, 1},
			{heart, false, 1},
			{directory.PoolKeys("ringlet"), true, 2},
			{"nothing", true, 0},
		} {
			if rm.keys == 1 && len(c.hosts[0].keys(rm.key)) == 0 {
				continue // another address was handed out
			}
			reader := c.hosts[2].shared.Watch(c.hosts[2].shared.Last())
			did := c.hosts[1].shared.Remove(t.Context(), rm.key, rm.below)
			if did.Keys != rm.keys || len(did.Silent) > 0 {
				t.Errorf("%s: removed %d, want %d; silent: %v", rm.key, did.Keys, rm.keys, did.Silent)
			}
			c.until(10*time.Second, "back: "+rm.key, func() bool {
				return alike(12, c.hosts...) && cmp.Equal(want, c.hosts[2].keys("ringlet/state/")) && len(c.hosts[2].keys(heart)) == 1
			})
			seen, meets := 0, func(key string) bool { return key == rm.key || rm.below && strings.HasPrefix(key, rm.key) }
			short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			for seen == 0 && short.Err() == nil {
				list, _, _ := reader.Next(short)
				for _, e := range list {
					if meets(e.Key) {
						seen++
					}
				}
			}
			cancel()
			if (seen > 0) != (rm.keys > 0) {
				t.Errorf("%s: another host has seen %d changes", rm.key, seen)
			}
		}
	})
}

// Each host that can be reached is asked about the past, also while every third packet is lost. One that is cut off is not
// waited for once the others see that.
func TestAskHosts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := found(&cluster{t: t, net: memnet.New(), past: map[string]string{"host-2": "two", "host-3": "three", "host-4": "four"}}, 5) // host-5 cannot tell
		ids := map[string]string{}
		for _, p := range c.status(c.hosts[0]).Peers {
			ids[p.ID] = p.Name
		}
		c.until(2*time.Minute, "alike", func() bool { return len(c.hosts[0].keys(directory.NodeKeys("ringlet"))) == 5 && alike(0, c.hosts...) })
		asks := func() (string, time.Duration) {
			begun := time.Now()
			told, silent := c.hosts[0].shared.Ask(t.Context(), netip.MustParseAddr("10.50.0.7"), begun)
			var all []string
			for _, one := range told {
				all = append(all, ids[one.Owner]+" says "+string(one.Text))
			}
			for _, id := range silent {
				all = append(all, ids[id]+" is silent")
			}
			slices.Sort(all)
			return strings.Join(all, ", "), time.Since(begun)
		}
		const want = "host-2 says two, host-3 says three, host-4 says four, host-5 is silent"
		if got, took := asks(); got != want || took > time.Second {
			t.Errorf("after %v: %s", took, got)
		}
		c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link { return memnet.Link{Loss: 0.33} })
		for range 10 {
			if got, took := asks(); got != want || took > 5*time.Second {
				t.Errorf("with loss, after %v: %s", took, got)
			}
		}
		apart := c.hosts[3]
		c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
			if from == apart.addr || to == apart.addr {
				return memnet.Cut()
			}
			return memnet.Link{}
		})
		if got, took := asks(); got != "host-2 says two, host-3 says three, host-4 is silent, host-5 is silent" || took > 11*time.Second {
			t.Errorf("cut off, after %v: %s", took, got)
		}
		time.Sleep(time.Minute)
		if got, took := asks(); got != "host-2 says two, host-3 says three, host-5 is silent" || took > time.Second {
			t.Errorf("a minute later, after %v: %s", took, got)
		}
	})
}

// K8: 20 hosts hold 100,000 addresses, and all know them. A change is on all of them within 2 s. A broadcast may miss a host, which
// hears of it a few seconds later: of 40 at most one may.
func TestDirectoryOfManyAddresses(t *testing.T) {
	lasts(t)
	bubble.Test(t, func(t *testing.T) {
		const hosts, each, callers = 20, 5000, 20
		c := newCluster(t, hosts)
		c.lab("10.64.0.0/12")
		var holding sync.WaitGroup
		for i, h := range c.hosts {
			for j := range callers {
				holding.Go(func() {
					for k := range each / callers {
						if _, err := h.Client(t.Context(), ipam.ClientRequest{Pool: "lab", ID: fmt.Sprintf("device-%d-%d-%d", i, j, k)}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		holding.Wait()
		c.until(5*time.Minute, "told of all addresses", func() bool {
			return !slices.ContainsFunc(c.hosts, func(h *clusterHost) bool { return h.shared.Stats().Records < hosts*each })
		})
		var took []time.Duration
		known := func(a netip.Addr, holders int) {
			t.Helper()
			begun := time.Now()
			c.until(time.Minute, "told of a change", func() bool {
				return !slices.ContainsFunc(c.hosts, func(h *clusterHost) bool { return len(h.shared.Holdings(a)) != holders })
			})
			took = append(took, time.Since(begun))
		}
		for i, h := range c.hosts {
			a := c.hold(h, fmt.Sprint("late-", i))
			known(a, 1)
			if _, err := h.Free(t.Context(), ipam.FreeRequest{Address: a}); err != nil {
				t.Fatal(err)
			}
			known(a, 0)
		}
		slices.Sort(took)
		fmt.Fprintf(t.Output(), "with %d addresses all %d hosts knew of a change after %v at the median, and %v at most\n", hosts*each, hosts, took[len(took)/2], took[len(took)-1])
		if late := took[len(took)-2]; late > 2*time.Second {
			t.Errorf("two of %d changes were on all hosts after %v or later", len(took), late)
		}
	})
}
