package main

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/route"
)

// interfaces are those of a host, which can be broken.
type interfaces struct {
	address atomic.Pointer[netip.Prefix]
	err     atomic.Pointer[error]
	reads   atomic.Int64
}

func (i *interfaces) read() ([]net.Addr, error) {
	i.reads.Add(1)
	if err := i.err.Load(); err != nil {
		return nil, *err
	}
	var out []net.Addr
	if p := i.address.Load(); p != nil {
		out = append(out, &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	return out, nil
}

func (i *interfaces) set(address string, err error) {
	i.address.Store(nil)
	if address != "" {
		i.address.Store(new(netip.MustParsePrefix(address)))
	}
	i.err.Store(nil)
	if err != nil {
		i.err.Store(&err)
	}
}

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
		var found interfaces
		h := newHost(n, log.Logger())
		h.addresses = found.read
		wrong := func(want bool) {
			t.Helper()
			p, got := h.fault.Problem()
			if got != want || got && (p.Code != "interfaces-unreadable" || p.Level != string(ipam.Degraded)) {
				t.Errorf("problem %+v, %v; want %v", p, got, want)
			}
		}

		found.set("", broken)
		if err := h.tell(t.Context()); err != nil {
			t.Fatalf("the start fails: %v", err)
		}
		wrong(true)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.watch(ctx) }()
		synctest.Wait()
		before := found.reads.Load()
		time.Sleep(10*hostRetry + time.Millisecond) // in the bubble this takes no time
		if n := found.reads.Load() - before; n != 10 {
			t.Errorf("read %d times while it failed, want 10", n)
		}

		found.set("10.50.0.9/24", nil)
		time.Sleep(hostRetry)
		wrong(false)
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("the host's address is %s", s)
		}

		found.set("", broken)
		time.Sleep(time.Hour)
		wrong(true)
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("after an hour without a reading the host's address is %s", s)
		}

		found.set("10.50.0.10/24", nil)
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
	h := newHost(nil, slog.New(slog.DiscardHandler))
	h.turn <- struct{}{}
	gone := errors.New("the engine has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := h.tell(ctx); !errors.Is(err, gone) {
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
		var found interfaces
		found.set("10.50.0.9/24", nil)
		h := newHost(n, slog.New(slog.DiscardHandler))
		h.addresses = found.read
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.watch(t.Context()); !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("got %v, want that the node has stopped", err)
		}
		if p, wrong := h.fault.Problem(); wrong {
			t.Errorf("the node's failure became the problem %q", p.Text)
		}
	})
}

// A network is made on a LAN on which the host has had an address for a few
// seconds: no container gets that address.
func TestNetworkOnALANThatTheHostHasJustJoined(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		logger := slog.New(slog.DiscardHandler)
		var found interfaces
		h := newHost(n, logger)
		h.addresses = found.read
		if err := h.tell(t.Context()); err != nil { // at the start
			t.Fatal(err)
		}
		watcher, err := dockerd.New(dockerd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		calls := engineCalls{n, watcher, &prober{node: n}, h, nil, nil, nil}

		time.Sleep(hostFresh)
		found.set("10.50.0.1/24", nil) // ip addr add 10.50.0.1/24 dev eth1
		// docker network create -d macvlan -o parent=eth1 --subnet 10.50.0.0/24, on engine 29, which asks for no gateway
		p, err := calls.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24")})
		if err != nil {
			t.Fatal(err)
		}
		g, err := calls.RequestAddress(t.Context(), ipam.AddressRequest{
			Network: p.Network, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 0x42, 0, 0, 0, 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if g.Address.Addr() == netip.MustParseAddr("10.50.0.1") {
			t.Errorf("the container got %v, which the host itself has", g.Address)
		}
	})
}

// Where routes cannot be read those that were known stand, and addresses are read all
// the same.
func TestRoutesThatCannotBeRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		var found interfaces
		found.set("10.50.0.9/24", nil)
		to := func(p string, gateway, reject bool) route.Route {
			return route.Route{To: netip.MustParsePrefix(p), Gateway: gateway, Reject: reject}
		}
		var table atomic.Pointer[[]route.Route]
		table.Store(&[]route.Route{to("0.0.0.0/0", false, false), to("10.32.0.0/24", false, false), to("10.32.1.0/24", true, false), to("10.32.2.0/24", false, true), to("10.32.0.0/12", false, true)})
		var broken atomic.Pointer[error]
		h := newHost(n, slog.New(slog.DiscardHandler))
		h.addresses = found.read
		h.routes = func() iter.Seq2[route.Route, error] {
			return func(yield func(route.Route, error) bool) {
				for _, r := range *table.Load() {
					if !yield(r, nil) {
						return
					}
				}
				if err := broken.Load(); err != nil {
					yield(route.Route{}, *err)
				}
			}
		}
		watcher, err := dockerd.New(dockerd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		calls := engineCalls{n, watcher, &prober{node: n}, h, nil, nil, nil}
		choose := func(want string) {
			t.Helper()
			p, err := calls.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local})
			if err != nil || p.Network.Pool != netip.MustParsePrefix(want) {
				t.Errorf("%v, %v, want %s", p.Network.Pool, err, want)
			}
		}
		choose("10.32.3.0/24")
		table.Store(&[]route.Route{to("0.0.0.0/0", true, false), to("10.32.0.0/16", false, false)})
		broken.Store(new(errors.New("too many open files")))
		choose("10.32.4.0/24")
		if p, wrong := h.unrouted.Problem(); !wrong || p.Code != "routes-unreadable" || !strings.Contains(p.Text, "too many open files") {
			t.Errorf("problem %+v, %v", p, wrong)
		}
		if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
			t.Fatal(err)
		}
		if err := h.tell(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := stateOf(t, n, "10.50.0.9"); s != "host" {
			t.Errorf("the host's address is %s", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go h.watch(ctx)
		synctest.Wait()
		broken.Store(nil)
		time.Sleep(hostRetry + time.Millisecond)
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
	h := newHost(nil, slog.New(slog.DiscardHandler))
	h.routes = func() iter.Seq2[route.Route, error] {
		return func(yield func(route.Route, error) bool) {
			for n++; yield(route.Route{To: netip.MustParsePrefix("10.32.0.0/24"), Gateway: true}, nil); n++ {
			}
		}
	}
	h.readRoutes()
	if n != maxRoutes || len(h.told) != maxRoutes {
		t.Errorf("%d read, %d told", n, len(h.told))
	}
}

// The host gets an address on the LAN of a network that has been there for long: no
// container that starts then gets it, nor claims it, and the interfaces are read once.
func TestAddressOfAHostThatTheKernelHasToldOf(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		var found interfaces
		var told uint64
		h := newHost(n, slog.New(slog.DiscardHandler))
		h.addresses, h.changes = found.read, func() uint64 { return told }
		watcher, err := dockerd.New(dockerd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		calls := engineCalls{n, watcher, &prober{node: n}, h, nil, nil, nil}
		p, err := calls.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24")})
		if err != nil {
			t.Fatal(err)
		}
		reads := found.reads.Load()
		next := func(i byte, claim string) (netip.Addr, error) {
			r := ipam.AddressRequest{Network: p.Network, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0x42, 0, 0, 0, i}}
			if claim != "" {
				r.Address = netip.MustParseAddr(claim)
			}
			g, err := calls.RequestAddress(t.Context(), r)
			return g.Address.Addr(), err
		}
		last, err := next(1, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range byte(3) {
			own := last.Next()
			found.set(own.String()+"/24", nil)
			told++
			if last, err = next(2+i, ""); err != nil || last == own {
				t.Fatalf("a container got %v, %v; the host has %v", last, err, own)
			}
		}
		found.set("10.50.0.200/24", nil)
		told++
		if got, err := next(9, "10.50.0.200"); err == nil {
			t.Errorf("a container claimed %v, which the host has", got)
		}
		if got := found.reads.Load() - reads; got != 4 {
			t.Errorf("the interfaces were read %d times for 4 changes", got)
		}

		found.set("", errors.New("netlinkrib: too many open files"))
		told++
		if _, err := next(10, ""); err != nil {
			t.Error(err)
		}
		found.set("10.50.0.201/24", nil)
		if got, err := next(11, "10.50.0.201"); err == nil {
			t.Errorf("a container claimed %v, which the host has; it could not be read before", got)
		}
	})
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
		h := newHost(n, log.Logger())
		var found interfaces
		told := make(chan error)
		h.addresses, h.wait = found.read, func(context.Context) error { return <-told }
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		for _, part := range []func(context.Context) error{h.listen, h.watch} {
			parts.Go(func() {
				if err := part(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		found.set("10.50.0.9/24", nil)
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
