// Package inventory brings what the engine lists to all that goes by it: the node, what the networks of the host are known by, and what
// announces containers. The node learns what the host itself has first, and when the engine was asked.
//
// It refuses to know when the engine is asked, and what follows from a list.
package inventory

import (
	"context"
	"time"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/decided"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/networks"
)

// Readers are who goes by what the engine lists.
type Readers struct {
	Node    *node.Node
	Host    *hostnet.Reporter
	NoMAC   *networks.NoMAC
	Routers *networks.Routers
	Names   *networks.Names
	Vain    *networks.Refused
	Decided *decided.Keeper
	Starts  func(inv *dockerd.Inventory) // called when the node knows the MACs
}

// Deliver returns what brings the lists of w to their readers, also those that are not complete:
// what they have is in use. The node's mark is taken before the engine is asked.
func (r *Readers) Deliver(w *dockerd.Watcher) dockerd.Deliver {
	var mark ipam.Mark
	w.BeforeLook(func(ctx context.Context) {
		mark, _ = r.Node.Mark(ctx) // a node that has stopped says so again when it is given the inventory
	})
	w.WhenAsked(func(ctx context.Context, list dockerd.List) { r.listNetworks(ctx, w, list) })
	return func(ctx context.Context, inv dockerd.Inventory) (time.Duration, error) {
		if inv.Complete {
			r.NoMAC.See(inv.Networks)
			r.Routers.See(inv.Networks)
			r.Decided.See(inv.Networks)
		}
		r.Names.See(&inv)
		r.Vain.See(inv.Networks)
		if err := r.Host.Tell(ctx); err != nil {
			return 0, err
		}
		list := translate(inv)
		list.After = mark
		again, err := r.Node.Inventory(ctx, list)
		r.Starts(&inv)
		return again, err
	}
}

// listNetworks has the engine list its networks, and brings the list to the node and to what is wrong with networks, which ends
// with them. Without an answer the next look tells.
func (r *Readers) listNetworks(ctx context.Context, w *dockerd.Watcher, list dockerd.List) {
	mark, err := r.Node.Mark(ctx)
	if err != nil {
		return // the node has stopped
	}
	found, err := list(ctx)
	if err == nil {
		r.NoMAC.See(found)
		r.Routers.See(found)
		r.Vain.See(found)
		inv := translate(dockerd.Inventory{Networks: found, Listed: true})
		inv.After = mark
		_, err = r.Node.Inventory(ctx, inv)
	}
	if err != nil {
		w.Recheck()
	}
}

// translate turns what the engine said into what the node takes in.
func translate(inv dockerd.Inventory) ipam.Inventory {
	out := ipam.Inventory{Partial: !inv.Complete, AllNetworks: inv.Listed}
	for _, n := range inv.Networks {
		net := ipam.InventoryNetwork{ID: n.ID, Name: n.Name}
		for _, s := range n.Subnets {
			if s.Prefix.IsValid() { // else it could not be read
				net.Subnets = append(net.Subnets, s.Prefix)
			}
			net.Auxiliary = append(net.Auxiliary, s.Aux...)
			if s.Gateway.IsValid() {
				net.Gateways = append(net.Gateways, s.Gateway)
			}
		}
		for _, e := range n.Endpoints {
			for _, a := range e.Addresses {
				net.Endpoints = append(net.Endpoints, ipam.InventoryEndpoint{
					Address: a.Addr(), Container: e.Container, Name: e.Name, MAC: parse.MAC(e.MAC),
				})
			}
		}
		out.Networks = append(out.Networks, net)
	}
	return out
}
