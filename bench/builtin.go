package main

import (
	"io"
	"net"
	"net/netip"

	"github.com/containerd/log"
	"github.com/docker/docker/libnetwork/ipamapi"
	"github.com/docker/docker/libnetwork/ipams/defaultipam"
	"github.com/docker/docker/libnetwork/ipamutils"
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
	p, err := a.RequestPool(ipamapi.PoolRequest{AddressSpace: "LocalDefault", Pool: pool})
	return &builtin{a, p.PoolID}, err
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
