package node_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// While nothing is to be handed out, what asks for something new is refused, and all else goes on.
func TestClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		why := errors.New("the disk is full")
		n, err := node.New(node.Config{
			Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))},
			Store:   &disk{records: machinetest.Disk{}}, Logger: slog.New(slog.DiscardHandler),
			Closed: func() error {
				if closed.Load() {
					return why
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, n)
		pool := netip.MustParsePrefix("10.50.0.0/24")
		g, err := n.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		container := ipam.AddressRequest{Network: g.Network, Purpose: ipam.ForContainer, Name: "web"}
		held, err := n.RequestAddress(t.Context(), container)
		if err != nil {
			t.Fatal(err)
		}
		closed.Store(true)
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, why) {
				t.Errorf("%s: %v", what, err)
			}
		}
		served := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = n.RequestAddress(t.Context(), container)
		refused("an address for a container", err)
		_, err = n.RequestAddress(t.Context(), ipam.AddressRequest{Network: g.Network, Purpose: ipam.ForGateway})
		refused("a gateway that is to be chosen", err)
		_, err = n.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local})
		refused("a subnet that is to be chosen", err)
		_, err = n.Client(t.Context(), ipam.ClientRequest{Pool: pool.String(), ID: "vm"})
		refused("ringlet alloc", err)
		_, _, err = n.CreatePool(t.Context(), netip.MustParsePrefix("10.51.0.0/24"), "")
		refused("ringlet pool create", err)

		_, err = n.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local, Pool: pool})
		served("the replay of a network", err)
		_, err = n.RequestAddress(t.Context(), ipam.AddressRequest{Network: g.Network, Purpose: ipam.ForUnmarked, Address: netip.MustParseAddr("10.50.0.9")})
		served("an address that is named, as in a replay", err)
		_, err = n.List(t.Context(), ipam.Listing{Holder: "web"})
		served("a question", err)
		served("a release", n.ReleaseAddress(t.Context(), g.Network, held.Address.Addr()))
		closed.Store(false)
		_, err = n.RequestAddress(t.Context(), container)
		served("an address for a container", err)
	})
}
