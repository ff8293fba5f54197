package networks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// Routers knows the networks of this host whose containers send what leaves the subnet to an address that ringlet chose as
// gateway, because nobody named the router of the LAN. Safe for concurrent use.
type Routers struct {
	addresses func() ([]netip.Prefix, error) // of this host
	unnamed   atomic.Pointer[[]unnamed]      // nil: no list is known
}

// NewRouters returns routers of which no list is known. addresses returns those of this host.
func NewRouters(addresses func() ([]netip.Prefix, error)) *Routers {
	return &Routers{addresses: addresses}
}

// unnamed is a subnet of such a network, if the gateway there is this host's own.
type unnamed struct {
	network string
	subnet  dockerd.Subnet
}

// See takes a complete list of the engine's networks. A bridge is the gateway itself, and containers on an internal network or on
// ipvlan in mode l3 have none.
func (r *Routers) See(networks []dockerd.Network) {
	var found []unnamed
	for _, n := range networks {
		onLAN := (n.Driver == "macvlan" || n.Driver == ipvlan) && !n.Internal && n.DriverOptions["parent"] != "" && !strings.HasPrefix(n.DriverOptions["ipvlan_mode"], "l3")
		if mode := n.Options["gateway"]; !onLAN || mode != "" && mode != ipam.GatewayHost.String() {
			continue
		}
		for _, s := range n.Subnets {
			found = append(found, unnamed{n.Name, s})
		}
	}
	slices.SortFunc(found, func(a, b unnamed) int { return strings.Compare(a.network, b.network) })
	r.unnamed.Store(&found)
}

// Problems are the networks whose gateway this host has for itself in a pool, on no interface.
func (r *Routers) Problems(pools []ipam.PoolStatus) (out []ipam.Problem) {
	found := r.unnamed.Load()
	if found == nil {
		return nil
	}
	var own []netip.Prefix
	for i, u := range *found {
		at := slices.IndexFunc(pools, func(p ipam.PoolStatus) bool { return p.Pool == u.subnet.Prefix })
		if at < 0 || !pools[at].Gateway.IsValid() || u.subnet.Gateway.IsValid() && u.subnet.Gateway != pools[at].Gateway {
			continue
		}
		if own == nil {
			var err error
			if own, err = r.addresses(); err != nil {
				return nil // another problem says so
			}
		}
		routes := slices.ContainsFunc(own, func(a netip.Prefix) bool { return a.Addr() == pools[at].Gateway })
		if routes || len(out) > 0 && i > 0 && (*found)[i-1].network == u.network {
			continue
		}
		out = append(out, ipam.Problem{
			Code: "router-unnamed", Level: string(ipam.Degraded),
			Text: fmt.Sprintf("network %s was created without --gateway: its containers send what leaves the subnet to %v, which ringlet chose and no router has", u.network, pools[at].Gateway),
			Next: "create the network again with the router of the LAN as --gateway, or with --ipam-opt gateway=none if its containers need no router",
		})
	}
	return out
}
