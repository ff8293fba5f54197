// Package calls answers the engine: it is the node with what must be done before and after a request, as to look at the host's
// addresses, to ask the LAN, and to have the engine listed again where something went wrong.
//
// It refuses to know the protocol of the engine, and which address anybody gets.
package calls

import (
	"context"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/decided"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/networks"
)

// Calls is what the driver asks of the rest of the process. All but Node, Watcher, Prober and Host may be nil.
type Calls struct {
	*node.Node
	Watcher *dockerd.Watcher
	Prober  Prober
	Host    *hostnet.Reporter
	Starts  Starts
	Decided *decided.Keeper
	Vain    *networks.Refused
}

// Prober grants an address that nothing else on the LAN has.
type Prober interface {
	Grant(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error)
}

// Starts hears what the engine gets.
type Starts interface {
	Granted(r *ipam.AddressRequest, g *ipam.AddressGrant)
	Made(g *ipam.PoolGrant)
}

// RequestPool grants a pool. Before that it looks at what the host has now: the
// bridge of a network that was removed a moment ago keeps its subnet no longer, and
// on the LAN of a new one the host may have an address since a moment ago.
func (c Calls) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	look := c.Host.Tell
	if r.Pool.IsValid() {
		look = c.Host.TellSoon
	}
	_ = look(ctx) // what was told before stands; the status says what is wrong
	before := c.Vain.Before(ctx)
	g, err := c.Node.RequestPool(ctx, r)
	if err == nil {
		if c.Starts != nil {
			c.Starts.Made(&g)
		}
		c.Vain.Granted(before, g.Network.Pool)
	}
	return g, err
}

// ReleasePool forgets a network. If it never came to be, its pool goes, too.
func (c Calls) ReleasePool(ctx context.Context, n ipam.Network) error {
	err := c.Node.ReleasePool(ctx, n)
	c.Vain.Released(n.Pool)
	return err
}

// Greeted has the node expect a replay, and looks at what the engine has.
func (c Calls) Greeted(ctx context.Context) {
	_ = c.Greet(ctx) // it fails only if everything else does, too
	c.Watcher.Recheck()
}

// RequestAddress grants an address that the host itself does not have by now, and
// asks the LAN about it first where the network wants that. After a refusal it looks
// at what the engine has: of a start that fails for its second address the engine
// never releases the first.
func (c Calls) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	if err := c.Decided.RefusesRequest(&r); err != nil {
		return ipam.AddressGrant{}, err
	}
	_ = c.Host.TellChanges(ctx) // as in RequestPool
	g, err := c.Prober.Grant(ctx, r)
	if err != nil {
		c.Watcher.Recheck()
	} else if c.Starts != nil {
		c.Starts.Granted(&r, &g)
	}
	return g, err
}

// Recheck looks at what the engine has, soon.
func (c Calls) Recheck() { c.Watcher.Recheck() }
