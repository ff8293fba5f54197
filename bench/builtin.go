package main

import (
	"io"
	"net"
	"net/netip"

	"github.com/containerd/log"
	"github.com/docker/docker/libnetwork/ipamapi"
	"github.com/docker/docker/libnetwork/ipams/defaultipam"
	"github.com/docker/docker/libnetwork/ipamutils"

	"github.com/ringlet/ringlet/ipam"
)

// builtin is the engine's own IPAM, as a library: memory alone, no holders.
type builtin struct {
	ipam *defaultipam.Allocator
	pool string
}

func newBuiltin(pool string) (*builtin, error) {
	log.L.Logger.SetOutput(io.Discard)
	a, err := defaultipam.NewAllocator(ipamutils.GetLocalScopeDefaultNetworks(), ipamutils.GetGlobalScopeDefaultNetworks())
	if err != nil {
		return nil, err
	}
	b := &builtin{ipam: a}
	return b, b.open(pool)
}

// open takes a pool, of which all is from now on.
func (b *builtin) open(pool string) error {
	p, err := b.ipam.RequestPool(ipamapi.PoolRequest{AddressSpace: "LocalDefault", Pool: pool})
	b.pool = p.PoolID
	return err
}

func (b *builtin) allocate(want netip.Addr) (netip.Addr, error) {
	n, _, err := b.ipam.RequestAddress(b.pool, net.IP(want.AsSlice()), nil)
	if err != nil {
		return netip.Addr{}, err
	}
	a, _ := netip.AddrFromSlice(n.IP)
	return a.Unmap(), nil
}

func (b *builtin) free(a netip.Addr) error { return b.ipam.ReleaseAddress(b.pool, a.AsSlice()) }

func (b *builtin) pairs(n int) error {
	for range n {
		got, _, err := b.ipam.RequestAddress(b.pool, nil, nil)
		if err != nil {
			return err
		}
		if err := b.ipam.ReleaseAddress(b.pool, got.IP); err != nil {
			return err
		}
	}
	return nil
}

// replay is what the engine does when it starts: it asks a new built-in IPAM for the pools of its networks, and for the
// first addresses of each, which its containers have.
func replay(networks []ipam.Network, each int) error {
	b, err := newBuiltin(networks[0].Pool.String())
	if err != nil {
		return err
	}
	for i, net := range networks {
		if i > 0 {
			if err := b.open(net.Pool.String()); err != nil {
				return err
			}
		}
		for n := range each {
			if _, err := b.allocate(nth(net.Pool.Addr(), n+1)); err != nil {
				return err
			}
		}
	}
	return nil
}
