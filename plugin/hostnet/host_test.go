package hostnet

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// stateOf returns the state of an address of pool 10.50.0.0/24.
func stateOf(t *testing.T, n *node.Node, a string) string {
	t.Helper()
	s, err := n.Who(t.Context(), netip.MustParseAddr(a))
	if err != nil {
		t.Fatal(err)
	}
	return s.State
}

// Interfaces that cannot be read, at the start or later, end nothing, and free
// nothing.
func TestInterfacesThatCannotBeRead(t *testing.T) {
	var log plugintest.Log
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("netlinkrib: too many open files")
		var found plugintest.Interfaces
		h := New(Config{Node: n, Logger: log.Logger()})
		h.addresses = found.Read
		wrong := func(want bool) {
			t.Helper()
			p, got := h.fault.Problem()
			if got != want || got && (p.Code != "interfaces-unreadable" || p.Level != string(ipam.Degraded)) {
				t.Errorf("problem %+v, %v; want %v", p, got, want)
			}
		}

		found.Set("", broken)
		if err := h.Tell(t.Context()); err != nil {
			t.Fatalf("the start fails: %v", err)
		}
		wrong(true)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Watch(ctx) }()
		synctest.Wait()
		before := found.Reads()
		time.Sleep(10*retry + time.Millisecond) // in the bubble this takes no time
		if n := found.Reads() - before; n != 10 {
			t.Errorf("read %d times while it failed, want 10", n)
		}

		found.Set("10.50.0.9/24", nil)
		time.Sleep(retry)
		wrong(false)
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("the host's address is %s", s)
		}

		found.Set("", broken)
		time.Sleep(time.Hour)
		wrong(true)
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("after an hour without a reading the host's address is %s", s)
		}

		found.Set("10.50.0.10/24", nil)
		time.Sleep(time.Hour)
		wrong(false)
		if old, now := stateOf(t, n, "10.50.0.9"), stateOf(t, n, "10.50.0.10"); old == "host" || now != "host" {
			t.Errorf("the former address is %s, the new one %s", old, now)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if began, ended := log.Count("problem began"), log.Count("problem ended"); began != 2 || ended != 2 {
		t.Errorf("%d lines say that it began and %d that it ended, want 2 and 2", began, ended)
	}
}

// Who asks for a subnet waits no longer than it has time while another reading is
// under way, as on a disk that hangs.
func TestReadingWaitsForNoOther(t *testing.T) {
	h := New(Config{Logger: slog.New(slog.DiscardHandler)})
	h.turn <- struct{}{}
	gone := errors.New("the engine has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := h.Tell(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// What the node cannot write does end the process.
func TestHostEndsWithTheNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
			t.Fatal(err)
		}
		var found plugintest.Interfaces
		found.Set("10.50.0.9/24", nil)
		h := New(Config{Node: n, Logger: slog.New(slog.DiscardHandler)})
		h.addresses = found.Read
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.Watch(t.Context()); !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("got %v, want that the node has stopped", err)
		}
		if p, wrong := h.fault.Problem(); wrong {
			t.Errorf("the node's failure became the problem %q", p.Text)
		}
	})
}

// Where routes cannot be read those that were known stand, and addresses are read all
// the same.
func TestRoutesThatCannotBeRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		var found plugintest.Interfaces
		found.Set("10.50.0.9/24", nil)
		to := func(p string, gateway, reject bool) kernelnet.Route {
			r := kernelnet.Route{To: netip.MustParsePrefix(p), Reject: reject}
			if gateway {
				r.Gateway = netip.MustParseAddr("192.168.1.1")
			}
			return r
		}
		var table atomic.Pointer[[]kernelnet.Route]
		table.Store(&[]kernelnet.Route{to("0.0.0.0/0", false, false), to("10.32.0.0/24", false, false), to("10.32.1.0/24", true, false), to("10.32.2.0/24", false, true), to("10.32.0.0/12", false, true), to("fe80::/64", false, false)})
		var broken atomic.Pointer[error]
		h := New(Config{Node: n, Logger: slog.New(slog.DiscardHandler)})
		h.addresses = found.Read
		h.routes = func() iter.Seq2[kernelnet.Route, error] {
			return func(yield func(kernelnet.Route, error) bool) {
				for _, r := range *table.Load() {
					if !yield(r, nil) {
						return
					}
				}
				if err := broken.Load(); err != nil {
					yield(kernelnet.Route{}, *err)
				}
			}
		}
		choose := func(want string) {
			t.Helper()
			if err := h.Tell(t.Context()); err != nil {
				t.Fatal(err)
			}
			p, err := n.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local})
			if err != nil || p.Network.Pool != netip.MustParsePrefix(want) {
				t.Errorf("%v, %v, want %s", p.Network.Pool, err, want)
			}
		}
		choose("10.32.3.0/24")
		table.Store(&[]kernelnet.Route{to("0.0.0.0/0", true, false), to("10.32.0.0/16", false, false)})
		broken.Store(new(errors.New("too many open files")))
		choose("10.32.4.0/24")
		if p, wrong := h.unrouted.Problem(); !wrong || p.Code != "routes-unreadable" || !strings.Contains(p.Text, "too many open files") {
			t.Errorf("problem %+v, %v", p, wrong)
		}
		if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
			t.Fatal(err)
		}
		if err := h.Tell(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("the host's address is %s", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go h.Watch(ctx)
		synctest.Wait()
		broken.Store(nil)
		time.Sleep(retry + time.Millisecond)
		if p, wrong := h.unrouted.Problem(); wrong {
			t.Errorf("problem %q", p.Text)
		}
		choose("10.33.0.0/24")
		cancel()
		synctest.Wait()
	})
}

// Of a table that a routing protocol has filled a part is read.
func TestVeryManyRoutes(t *testing.T) {
	n := 0
	h := New(Config{Logger: slog.New(slog.DiscardHandler)})
	h.routes = func() iter.Seq2[kernelnet.Route, error] {
		return func(yield func(kernelnet.Route, error) bool) {
			for n++; yield(kernelnet.Route{To: netip.MustParsePrefix("10.32.0.0/24")}, nil); n++ {
			}
		}
	}
	h.readRoutes()
	if n != maxRoutes || len(h.told) != maxRoutes {
		t.Errorf("%d read, %d told", n, len(h.told))
	}
}

// A change of which the kernel tells is read though nobody asks for anything, and
// when it tells no more that is said once.
func TestHostListens(t *testing.T) {
	var log plugintest.Log
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
			t.Fatal(err)
		}
		h := New(Config{Node: n, Logger: log.Logger()})
		var found plugintest.Interfaces
		told := make(chan error)
		h.addresses, h.wait = found.Read, func(context.Context) error { return <-told }
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		for _, part := range []func(context.Context) error{h.Listen, h.Watch} {
			parts.Go(func() {
				if err := part(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		found.Set("10.50.0.9/24", nil)
		told <- nil
		synctest.Wait()
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("the host's address is %s", s)
		}
		told <- errors.New("netlink: not supported")
		time.Sleep(time.Hour)
		cancel()
		parts.Wait()
	})
	if n := log.Count("address notifications unavailable"); n != 1 {
		t.Errorf("%d lines say that notifications are unavailable", n)
	}
}

// A user may make a network of IPv4 link-local addresses, as for a metadata service; the host's own there is not handed out.
func TestCountsAsHost(t *testing.T) {
	for a, want := range map[string]bool{
		"192.168.1.7": true, "169.254.170.2": true, "fd00::1": true,
		"127.0.0.1": false, "::1": false, "fe80::1": false,
	} {
		if got := countsAsHost(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %t", a, got)
		}
	}
}
