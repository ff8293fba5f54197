package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/together"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/coreconfig"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// cluster is some peers, each with its database, on a network in memory. It
// lives in a bubble.
type cluster struct {
	t     *testing.T
	net   *memnet.Net
	hosts []*clusterHost
	// change, if not nil, changes what the settings say of a host.
	change func(host int, cfg *ipam.Config)
	// labels, if not nil, are the label sets of containers, by ID; it must not change.
	labels map[string]string
	// past, if not nil, is what the journal of a host says, by the name of the host; it must not change.
	past map[string]string
}

// clusterHost is one peer.
type clusterHost struct {
	*node.Node
	network *Peers
	shared  *directory.Directory
	addr    netip.AddrPort
	dir     string // of its database
	end     func()
}

// hostAddr is the address of the n-th host.
func hostAddr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), config.DefaultPort)
}

// newCluster starts hosts 1 to n, which found a cluster together.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	return found(&cluster{t: t, net: memnet.New()}, n)
}

// found starts hosts 1 to n of a cluster that has none.
func found(c *cluster, n int) *cluster {
	c.t.Helper()
	c.t.Cleanup(func() {
		for _, h := range c.hosts {
			h.end()
		}
		time.Sleep(2 * time.Minute) // memberlist's last goroutines end some time after its shutdown
	})
	var join []string
	for i := range n {
		join = append(join, hostAddr(i+1).String())
	}
	for i := range n {
		c.start(i+1, join)
	}
	c.until(time.Minute, "founded", func() bool {
		return !slices.ContainsFunc(c.hosts, func(h *clusterHost) bool { return c.status(h).State != ipam.Ready || len(c.status(h).Peers) != n })
	})
	return c
}

// start starts one host with a new database.
func (c *cluster) start(n int, join []string) *clusterHost {
	c.t.Helper()
	return c.startIn(c.t.TempDir(), n, join)
}

// startIn starts one host with the database in dir.
func (c *cluster) startIn(dir string, n int, join []string) *clusterHost {
	c.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	store, err := persist.Open(persist.Config{
		Path: filepath.Join(dir, plugintest.Database), Schema: ipam.SchemaVersion, Logger: logger,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg, err := config.Load([]string{
		fmt.Sprintf("RINGLET_NAME=host-%d", n), "RINGLET_INSECURE=true", "RINGLET_BIND=" + hostAddr(n).String(),
	}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.Join = join
	machine := coreconfig.Of(cfg)
	if c.change != nil {
		c.change(n, &machine)
	}
	h := &clusterHost{addr: hostAddr(n), dir: dir}
	happened := events.NewFeed(nil, new(contain.Edge))
	if h.Node, err = node.New(node.Config{
		Machine: machine, Store: store, Logger: logger, Timeout: cfg.Timeout, ObserveNote: happened.Note,
	}); err != nil {
		c.t.Fatal(err)
	}
	id, err := h.Identity(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	happened.Begin(id)
	if h.shared, err = directory.New(directory.Config{
		Self: id, Cluster: cfg.Cluster, Source: h.Node, Log: happened.Log(), Logger: logger,
		About:      func() directory.Node { return directory.Node{Version: "test", Address: hostAddr(n).String()} },
		Containers: c.containers, Identities: h.Node,
		Past: func(context.Context, netip.Addr, time.Time) ([]byte, error) {
			return []byte(c.past[string(id.Name)]), nil
		},
	}); err != nil {
		c.t.Fatal(err)
	}
	settings, err := network(c.t.Context(), Config{Settings: cfg, Node: h.Node, Directory: h.shared, Events: happened, Logger: logger})
	if err != nil {
		c.t.Fatal(err)
	}
	settings.Transport = c.net.Open
	if h.network, err = connect(settings, h.Node, h.shared); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- together.Run(ctx, h.Run, h.shared.Run, func(ctx context.Context) error { return h.network.Run(ctx, h.Node) })
	}()
	ended := false
	h.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
		if err := store.Close(); err != nil {
			c.t.Error(err)
		}
	}
	c.hosts = append(c.hosts, h)
	return h
}

// containers is what an engine tells of the labels of containers.
func (c *cluster) containers(_ context.Context, ids []string) (map[string]directory.Container, error) {
	out := map[string]directory.Container{}
	for _, id := range ids {
		out[id] = directory.Container{Labels: c.labels[id]}
	}
	return out, nil
}

func (c *cluster) status(h *clusterHost) ipam.Status {
	c.t.Helper()
	st, err := h.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return st
}

// until lets virtual time pass until something holds.
func (c *cluster) until(limit time.Duration, what string, holds func() bool) {
	c.t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > limit {
			c.t.Fatalf("after %v: not %s", limit, what)
		}
	}
}

// looksFor reports whether a host would try to reach another one again.
func (h *clusterHost) looksFor(other *clusterHost) bool {
	return slices.ContainsFunc(h.network.Contacts(), func(c gossip.Contact) bool { return c.Addr == other.addr })
}

// Who has left for good, or was given up, is looked for no more; who was only
// evicted is.
func TestPeersThatAreGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		left, lost, stays := c.hosts[3], c.hosts[4], c.hosts[:3]
		if err := left.Leave(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if !stays[0].looksFor(left) {
			t.Error("a peer that still answers was forgotten")
		}
		left.end()
		lost.end()
		time.Sleep(2 * time.Minute)
		if err := stays[0].Evict(t.Context(), "host-5"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		for i, h := range stays {
			if h.looksFor(left) {
				t.Errorf("host %d looks for a peer that has left", i+1)
			}
			if !h.looksFor(lost) {
				t.Errorf("host %d has forgotten a peer that may return", i+1)
			}
		}
		if _, err := stays[0].Forget(t.Context(), "host-5", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		for i, h := range stays {
			if h.looksFor(lost) {
				t.Errorf("host %d looks for a peer that was given up", i+1)
			}
			if id, err := h.Identity(t.Context()); err != nil || len(id.Known) != 2 {
				t.Errorf("host %d would look for %d peers after its next start, want 2 (%v)", i+1, len(id.Known), err)
			}
		}
	})
}

// A host has on its disk where all others are, those that it founded the
// cluster with and those that were there before it: after the next start it
// finds them, whatever became of those that its settings name.
func TestAddressesOfPeersAreKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		late := c.start(4, []string{hostAddr(1).String()})
		c.until(time.Minute, "admitted", func() bool { return c.status(late).State == ipam.Ready })
		time.Sleep(time.Minute)
		for i, h := range c.hosts {
			h.end()
			store := openRelease(t, filepath.Join(h.dir, plugintest.Database))
			cfg := releaseConfig()
			m, err := ipam.Restore(cfg, store.Load)
			if err != nil {
				t.Fatal(err)
			}
			if known := m.Identity().Known; len(known) != 3 {
				t.Errorf("host %d would look for %v after its next start, want the 3 others", i+1, known)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A host that looks for its cluster in vain is told where it is, and remembers.
func TestJoinByHand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		late := c.start(4, []string{hostAddr(99).String()})
		time.Sleep(time.Minute)
		if st := c.status(late); st.State != ipam.Joining {
			t.Fatalf("it is %s before it was told, want %s", st.State, ipam.Joining)
		}
		met, err := late.network.Join(t.Context(), "10.0.0.2")
		if err != nil || len(met) != 1 || met[0].Name != "host-2" || met[0].Address != hostAddr(2).String() {
			t.Errorf("got %v, %v, want host-2", met, err)
		}
		c.until(20*time.Second, "admitted", func() bool { return c.status(late).State == ipam.Ready })
		if id, err := late.Identity(t.Context()); err != nil || len(id.Known) != 3 {
			t.Errorf("it would look for %d hosts after its next start, want 3 (%v)", len(id.Known), err)
		}
		for where, want := range map[string]string{"10.0.0.4": "bad-request", "10.0.0.98": "unreachable"} {
			if _, err := late.network.Join(t.Context(), where); ipam.Code(err) != want {
				t.Errorf("%s: got %v, want code %s", where, err, want)
			}
		}
		var none *Peers
		if _, err := none.Join(t.Context(), "10.0.0.2"); ipam.Code(err) != "bad-request" || !strings.Contains(err.Error(), "set RINGLET_KEY") {
			t.Errorf("without a key: got %v", err)
		}
	})
}

// What is wrong with the network stands before what follows from it, and behind what is worse.
func TestCausesComeFirst(t *testing.T) {
	failed, cutOff := ipam.Problem{Code: "joining", Level: "failed"}, ipam.Problem{Code: "cut-off", Level: "degraded"}
	for _, tt := range []struct {
		problems []ipam.Problem
		want     string
	}{
		{nil, "foreign-key"},
		{[]ipam.Problem{cutOff}, "foreign-key cut-off"},
		{[]ipam.Problem{failed}, "joining foreign-key"},
		{[]ipam.Problem{failed, cutOff}, "joining foreign-key cut-off"},
	} {
		var got []string
		for _, p := range withCauses(tt.problems, []gossip.Problem{{Code: "foreign-key"}}) {
			got = append(got, p.Code)
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s, want %s", text, tt.want)
		}
	}
}
