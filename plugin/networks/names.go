package networks

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// Names knows the Docker networks of this host by the names that its users gave them: people know a network, not its subnet.
// Ringlet itself is never told these names, except in the engine's lists.
type Names struct {
	byPool atomic.Pointer[map[netip.Prefix][]string]
}

// See takes the names from a look at the engine. An incomplete one may lack networks, so the last complete one stands.
func (k *Names) See(inv *dockerd.Inventory) {
	if !inv.Complete {
		return
	}
	names := map[netip.Prefix][]string{}
	for _, n := range inv.Networks {
		for _, s := range n.Subnets {
			if s.Prefix.IsValid() && n.Name != "" && !slices.Contains(names[s.Prefix], n.Name) {
				names[s.Prefix] = append(names[s.Prefix], n.Name)
			}
		}
	}
	for _, list := range names {
		slices.Sort(list)
	}
	k.byPool.Store(&names)
}

// Of returns the names of the networks on a pool, in order.
func (k *Names) Of(pool netip.Prefix) []string {
	if names := k.byPool.Load(); names != nil {
		return (*names)[pool]
	}
	return nil
}

// Pools returns the subnets of the networks with a name, in order.
func (k *Names) Pools(name string) (on []netip.Prefix) {
	if names := k.byPool.Load(); names != nil {
		for pool, list := range *names {
			if slices.Contains(list, name) {
				on = append(on, pool)
			}
		}
	}
	slices.SortFunc(on, netip.Prefix.Compare)
	return on
}

// Complete adds the names to the pools of a status, of which others may have a copy.
func (k *Names) Complete(pools []ipam.PoolStatus) []ipam.PoolStatus {
	pools = slices.Clone(pools)
	for i := range pools {
		pools[i].NetworkNames = k.Of(pools[i].Pool)
	}
	return pools
}
