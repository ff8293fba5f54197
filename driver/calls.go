package driver

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	remote "github.com/docker/go-plugins-helpers/ipam"

	"github.com/ringlet/ringlet/ipam"
)

// The calls, by the names that paths, log and metrics have.
const (
	callCapabilities   = "GetCapabilities"
	callAddressSpaces  = "GetDefaultAddressSpaces"
	callRequestPool    = "RequestPool"
	callReleasePool    = "ReleasePool"
	callRequestAddress = "RequestAddress"
	callReleaseAddress = "ReleaseAddress"
)

// greetTime bounds how long greeting the backend may take. An engine that gets no
// capabilities in time replays nothing for the rest of its life.
const greetTime = 2 * time.Second

// handler serves one call. If answer is nil, err's text goes to the engine. If
// both are set, answer goes to the engine and err to the log, and the backend and
// the engine may now disagree (verdict.lost).
type handler func(ctx context.Context, c *call, body []byte) (answer any, err error)

// handlers returns the handler of each call.
func (d *Driver) handlers() map[string]handler {
	return map[string]handler{
		callCapabilities:   d.capabilities,
		callAddressSpaces:  d.addressSpaces,
		callRequestPool:    d.requestPool,
		callReleasePool:    d.releasePool,
		callRequestAddress: d.requestAddress,
		callReleaseAddress: d.releaseAddress,
	}
}

// bodiless reports whether a call comes without a body.
func bodiless(method string) bool { return method == callCapabilities || method == callAddressSpaces }

// capabilities answers whatever the backend makes of the greeting.
func (d *Driver) capabilities(ctx context.Context, _ *call, _ []byte) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	err := guard(func() error { d.cfg.Backend.Greeted(ctx); return nil })
	return announced(d.cfg.NoMAC), err
}

func (d *Driver) addressSpaces(context.Context, *call, []byte) (any, error) {
	return addressSpaces(), nil
}

func (d *Driver) requestPool(ctx context.Context, c *call, body []byte) (any, error) {
	var q remote.RequestPoolRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	r, err := poolRequest(&q, d.cfg.KeepsChosen != nil && d.cfg.KeepsChosen())
	if err != nil {
		return nil, err
	}
	c.pool = r.Pool
	grant, err := d.cfg.Backend.RequestPool(ctx, r)
	if err != nil {
		return nil, err
	}
	c.pool = grant.Network.Pool
	if !r.Pool.IsValid() {
		// A chosen pool is a new network's for sure. One that the request named
		// may be a replay, and its network lives.
		c.undo = func(ctx context.Context) error { return d.cfg.Backend.ReleasePool(ctx, grant.Network) }
	}
	if err := checkPool(&r, &grant); err != nil {
		return nil, err
	}
	data, subnet := map[string]string{}, grant.Network.Whole()
	if g := grant.Gateway; g.IsValid() {
		data[dataGateway] = netip.PrefixFrom(g.Addr(), subnet.Bits()).String()
	}
	return &remote.RequestPoolResponse{PoolID: string(grant.Network.ID()), Pool: subnet.String(), Data: data}, nil
}

// checkPool reports why an engine must not be given the pool. Engines take any
// answer for what they asked for.
func checkPool(r *ipam.PoolRequest, g *ipam.PoolGrant) error {
	pool := g.Network.Pool
	switch {
	case r.Pool.IsValid() && (pool != r.Pool || g.Network.Subnet != r.Subnet):
		return fmt.Errorf("asked for %v, granted %v", r.Pool, pool)
	case r.Range.IsValid() && g.Network.Range != r.Range:
		return fmt.Errorf("asked for range %v, granted %v", r.Range, g.Network.Range)
	case g.Gateway.IsValid() && (g.Gateway.Bits() != pool.Bits() || !pool.Contains(g.Gateway.Addr())):
		return fmt.Errorf("granted %v with the gateway %v", pool, g.Gateway)
	case pool.Addr().Is6() != r.V6:
		family := "IPv4"
		if r.V6 {
			family = "IPv6"
		}
		if r.PoolName == "" {
			return fmt.Errorf("asked for %s, granted %v", family, pool)
		}
		return badRequest(fmt.Sprintf("the pool %s is %v, and the network wants %s: use another pool, or make the network of the pool's family", quote(r.PoolName), pool, family))
	case r.Bits != 0 && pool.Bits() != r.Bits:
		if r.PoolName == "" {
			return fmt.Errorf("asked for a /%d, granted %v", r.Bits, pool)
		}
		return badRequest(fmt.Sprintf("the pool %s is %v and no /%d: leave out size, or use another pool", quote(r.PoolName), pool, r.Bits))
	}
	return nil
}

func (d *Driver) releasePool(ctx context.Context, c *call, body []byte) (any, error) {
	var q remote.ReleasePoolRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	n, err := network(q.PoolID)
	if err != nil {
		return done{}, err
	}
	c.pool = n.Pool
	return done{}, guard(func() error { return d.cfg.Backend.ReleasePool(ctx, n) })
}

func (d *Driver) requestAddress(ctx context.Context, c *call, body []byte) (any, error) {
	var q remote.RequestAddressRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	r, err := d.addressRequest(&q)
	if err != nil {
		return nil, err
	}
	c.pool, c.addr, c.container = r.Network.Pool, r.Address, r.Name
	grant, err := d.cfg.Backend.RequestAddress(ctx, r)
	if err != nil {
		return nil, err
	}
	c.addr = grant.Address.Addr()
	if t := grant.Ticket; !t.IsZero() {
		c.undo = func(ctx context.Context) error { return d.cfg.Backend.Withdraw(ctx, t) }
	}
	pool := r.Network.Pool
	switch a := grant.Address; {
	case a.Bits() != pool.Bits() || !pool.Contains(a.Addr()) && !r.Network.Outside(a.Addr()):
		return nil, fmt.Errorf("granted %v in %v", a, pool)
	case r.Address.IsValid() && a.Addr() != r.Address:
		return nil, fmt.Errorf("asked for %v in %v, granted %v", r.Address, pool, a)
	}
	return granted{netip.PrefixFrom(grant.Address.Addr(), r.Network.Whole().Bits())}, nil
}

func (d *Driver) releaseAddress(ctx context.Context, c *call, body []byte) (any, error) {
	var q remote.ReleaseAddressRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	n, err := d.known.network(q.PoolID)
	if err != nil {
		return done{}, err
	}
	c.pool = n.Pool
	if c.addr, err = address(q.Address); err != nil {
		return done{}, err
	}
	return done{}, guard(func() error { return d.cfg.Backend.ReleaseAddress(ctx, n, c.addr) })
}
