package calls

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/prober"
)

// A network is made on a LAN on which the host has had an address for a few
// seconds: no container gets that address.
func TestNetworkOnALANThatTheHostHasJustJoined(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		logger := slog.New(slog.DiscardHandler)
		var found plugintest.Interfaces
		h := hostnet.New(hostnet.Config{Node: n, Logger: logger, Addresses: found.Read})
		if err := h.Tell(t.Context()); err != nil { // at the start
			t.Fatal(err)
		}
		watcher, err := dockerd.New(dockerd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		calls := Calls{Node: n, Watcher: watcher, Prober: prober.New(prober.Config{Node: n, Logger: slog.New(slog.DiscardHandler)}), Host: h}

		time.Sleep(time.Second)        // an earlier reading is not new enough then
		found.Set("10.50.0.1/24", nil) // ip addr add 10.50.0.1/24 dev eth1
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

// The host gets an address on the LAN of a network that has been there for long: no
// container that starts then gets it, nor claims it, and the interfaces are read once.
func TestAddressOfAHostThatTheKernelHasToldOf(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, n := plugintest.Open(t, t.TempDir())
		defer store.Close()
		var found plugintest.Interfaces
		var told uint64
		h := hostnet.New(hostnet.Config{Node: n, Logger: slog.New(slog.DiscardHandler), Addresses: found.Read, Changes: func() uint64 { return told }})
		watcher, err := dockerd.New(dockerd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		calls := Calls{Node: n, Watcher: watcher, Prober: prober.New(prober.Config{Node: n, Logger: slog.New(slog.DiscardHandler)}), Host: h}
		p, err := calls.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24")})
		if err != nil {
			t.Fatal(err)
		}
		reads := found.Reads()
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
			found.Set(own.String()+"/24", nil)
			told++
			if last, err = next(2+i, ""); err != nil || last == own {
				t.Fatalf("a container got %v, %v; the host has %v", last, err, own)
			}
		}
		found.Set("10.50.0.200/24", nil)
		told++
		if got, err := next(9, "10.50.0.200"); err == nil {
			t.Errorf("a container claimed %v, which the host has", got)
		}
		if got := found.Reads() - reads; got != 4 {
			t.Errorf("the interfaces were read %d times for 4 changes", got)
		}

		found.Set("", errors.New("netlinkrib: too many open files"))
		told++
		if _, err := next(10, ""); err != nil {
			t.Error(err)
		}
		found.Set("10.50.0.201/24", nil)
		if got, err := next(11, "10.50.0.201"); err == nil {
			t.Errorf("a container claimed %v, which the host has; it could not be read before", got)
		}
	})
}
