package announcer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/announce"
	"github.com/ringlet/ringlet/plugin/calls"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/metrics"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/prober"
)

// announced is what an announcer has sent.
type announced struct {
	*Announcer
	mu     sync.Mutex
	sent   []string
	broken error
	state  dockerd.State
}

// announcing runs an announcer on a node until the test ends.
func announcing(t *testing.T, data string, c *calls.Calls) *announced {
	t.Helper()
	out := &announced{Announcer: New(true, data, c.Watcher, metrics.New(metrics.Config{}), slog.New(slog.DiscardHandler))}
	out.Of(c.Node)
	out.engine = func() dockerd.State { return out.state }
	out.send = func(p announce.Packet) (int, bool, error) {
		out.mu.Lock()
		defer out.mu.Unlock()
		if out.broken != nil {
			return 0, false, out.broken
		}
		out.sent = append(out.sent, fmt.Sprintf("%v %v on %s", p.Address, ipam.MAC(p.MAC), p.Link.Name))
		return 1, false, nil
	}
	c.Starts = out.Announcer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- out.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return out
}

// after returns what was sent within a time.
func (a *announced) after(d time.Duration) []string {
	time.Sleep(d)
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.sent
	a.sent = nil
	return out
}

// What the engine asks for is announced on the link of its network, as long as it is held; not what the engine has, its
// gateways, or what somebody else asks for.
func TestAnnounceWhatTheEngineAsksFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		data := t.TempDir()
		store, n := plugintest.Open(t, data)
		defer store.Close()
		watcher, err := dockerd.New(dockerd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		engine := &calls.Calls{
			Node: n, Watcher: watcher, Prober: prober.New(prober.Config{Node: n, Logger: slog.New(slog.DiscardHandler)}),
			Host: hostnet.New(hostnet.Config{Node: n, Logger: slog.New(slog.DiscardHandler)}),
		}
		a := announcing(t, data, engine)
		p, err := engine.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24")})
		if err != nil {
			t.Fatal(err)
		}
		listed := func() {
			a.Listed(&dockerd.Inventory{Begun: time.Now(), Complete: true, Networks: []dockerd.Network{{
				ID: strings.Repeat("5", 64), Driver: "macvlan", DriverOptions: map[string]string{"parent": "eth0"},
				Subnets: []dockerd.Subnet{{Prefix: netip.MustParsePrefix("10.50.0.0/24")}, {}},
			}}})
			synctest.Wait()
		}
		listed()
		ask := func(purpose ipam.Purpose, at string, mac byte) netip.Addr {
			t.Helper()
			r := ipam.AddressRequest{Network: p.Network, Purpose: purpose}
			if at != "" {
				r.Address = netip.MustParseAddr(at)
			}
			if mac != 0 {
				r.MAC = ipam.MAC{2, 0x42, 0, 0, 0, mac}
			}
			g, err := engine.RequestAddress(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return g.Address.Addr()
		}
		ask(ipam.ForGateway, "", 0)
		ask(ipam.ForUnmarked, "10.50.0.9", 0)
		if got := a.after(time.Minute); len(got) != 0 {
			t.Errorf("sent %q", got)
		}
		at := ask(ipam.ForContainer, "10.50.0.7", 1)
		want := "10.50.0.7 02:42:00:00:00:01 on eth0"
		if got := a.after(time.Minute); !slices.Equal(got, []string{want, want, want}) {
			t.Errorf("sent %q", got)
		}

		// It is released, and asked for with another MAC, and released before the second announcement.
		if err := engine.ReleaseAddress(t.Context(), p.Network, at); err != nil {
			t.Fatal(err)
		}
		ask(ipam.ForContainer, "10.50.0.7", 2)
		if got := a.after(time.Millisecond); !slices.Equal(got, []string{"10.50.0.7 02:42:00:00:00:02 on eth0"}) {
			t.Errorf("sent %q", got)
		}
		if err := engine.ReleaseAddress(t.Context(), p.Network, at); err != nil {
			t.Fatal(err)
		}
		if got := a.after(time.Minute); len(got) != 0 {
			t.Errorf("after its release: %q", got)
		}

		// The next process, whose engine has yet to answer: it knows the network, and does not wait for a list where the
		// engine asks for the network again.
		next := announcing(t, data, engine)
		if _, err := engine.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24")}); err != nil {
			t.Fatal(err)
		}
		ask(ipam.ForContainer, "10.50.0.7", 3)
		if got := next.after(time.Minute); len(got) != 3 {
			t.Errorf("the next process sent %q", got)
		}
		// One whose engine answers makes a network.
		next.state.Connected = true
		if _, err := engine.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24")}); err != nil {
			t.Fatal(err)
		}
		ask(ipam.ForContainer, "10.50.0.8", 4)
		if got := next.after(time.Minute); len(got) != 0 {
			t.Errorf("sent %q, and a network was made since the last list", got)
		}

		// It goes on where it may not send, and says so.
		next.mu.Lock()
		next.broken = syscall.EPERM
		next.mu.Unlock()
		a.Announcer = next.Announcer
		listed()
		next.after(time.Minute)
		if problem, wrong := next.Problem(); wrong {
			t.Errorf("a problem before anything was to be sent: %s", problem.Text)
		}
		ask(ipam.ForContainer, "10.50.0.10", 5)
		next.after(time.Minute)
		if problem, wrong := next.Problem(); !wrong || !strings.Contains(problem.Next, "CAP_NET_RAW") {
			t.Errorf("problem %+v", problem)
		}
	})
}

// IPv6 addresses are announced for engines that do not do it, and for those of which that is not known.
func TestAnnounceIPv6(t *testing.T) {
	for engine, want := range map[string]bool{"": true, "20.10.24+dfsg1": true, "27.5.1": true, "28.0.0": false, "29.0.0": false, "dev": true} {
		a := &Announcer{engine: func() dockerd.State { return dockerd.State{EngineVersion: engine} }}
		if got := a.concerns(netip.MustParseAddr("fd00::7")); got != want {
			t.Errorf("%q: %v", engine, got)
		}
		if !a.concerns(netip.MustParseAddr("10.50.0.7")) {
			t.Errorf("%q: no IPv4", engine)
		}
	}
}

// An address that was somebody else's is announced, whatever MAC it had here before.
func TestAnnounceAfterOthers(t *testing.T) {
	one, pool := netip.MustParseAddr("10.50.0.7"), netip.MustParsePrefix("10.50.0.0/24")
	for _, c := range []struct {
		note ipam.Note
		want bool
	}{
		{ipam.Note{Kind: ipam.NoteMoved, Address: netip.MustParseAddr("10.50.0.0"), Last: netip.MustParseAddr("10.50.0.7")}, true},
		{ipam.Note{Kind: ipam.NoteMoved, Address: netip.MustParseAddr("10.50.0.8"), Last: netip.MustParseAddr("10.50.0.15")}, false},
		{ipam.Note{Kind: ipam.NoteStranger, Address: one}, true},
		{ipam.Note{Kind: ipam.NotePoolDeleted, Pool: pool}, true},
		{ipam.Note{Kind: ipam.NoteGranted, Address: one, Use: ipam.Use{Kind: "client"}}, true},
		{ipam.Note{Kind: ipam.NoteGranted, Address: one, Use: ipam.Use{Kind: "container"}}, false},
		{ipam.Note{Kind: ipam.NoteGranted, Address: one, Use: ipam.Use{Kind: "unmarked"}}, false},
		{ipam.Note{Kind: ipam.NoteFreed, Address: one}, false},
	} {
		bubble.Test(t, func(t *testing.T) {
			data := t.TempDir()
			watcher, err := dockerd.New(dockerd.Config{})
			if err != nil {
				t.Fatal(err)
			}
			a := New(true, data, watcher, metrics.New(metrics.Config{}), slog.New(slog.DiscardHandler))
			sent := 0
			a.plan = announce.New(announce.Config{
				Held:  func(context.Context, netip.Addr) (announce.MAC, error) { return announce.MAC{2}, nil },
				Send:  func(announce.Packet) (int, bool, error) { sent++; return 1, false, nil },
				Count: func(string) {}, Fault: func(error) {}, Keep: func([]byte) error { return nil }, Logger: slog.New(slog.DiscardHandler),
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go a.Run(ctx)
			a.Listed(&dockerd.Inventory{Begun: time.Now(), Complete: true, Networks: []dockerd.Network{{
				ID: strings.Repeat("5", 64), Driver: "bridge", Subnets: []dockerd.Subnet{{Prefix: pool}},
			}}})
			for range 2 {
				a.plan.Granted(one, announce.MAC{2})
				time.Sleep(time.Minute)
				a.Note(&c.note)
			}
			a.plan.Granted(one, announce.MAC{2})
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := sent > 3; got != c.want {
				t.Errorf("%+v: %d packets", c.note, sent)
			}
		})
	}
}

// Without it nothing is done, and nothing is kept.
func TestAnnounceNothing(t *testing.T) {
	data := t.TempDir()
	a := New(false, data, nil, nil, nil)
	a.Of(nil)
	a.Granted(&ipam.AddressRequest{Purpose: ipam.ForContainer}, &ipam.AddressGrant{})
	a.Made(&ipam.PoolGrant{})
	a.Note(&ipam.Note{Kind: ipam.NoteMoved})
	a.Listed(&dockerd.Inventory{})
	if _, wrong := a.Problem(); wrong {
		t.Error("it has a problem")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(data, networksName)); err == nil {
		t.Error("it has kept something")
	}
}
