// Package gate stands between the engine and a node that may be replaced: the engine's connections outlive the node. While there is
// no node, requests wait for the next one, and are refused once that takes too long.
//
// It refuses to know why there is no node, and what is behind it.
package gate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/poolid"
)

const (
	// answerAhead is how long before its deadline a request is refused, so that
	// the engine gets the reason and not only that the time is over.
	answerAhead = 500 * time.Millisecond
	// replayTime is how long after its greeting an engine may still replay what
	// it has. It takes milliseconds for each network and each container.
	replayTime = 2 * time.Minute
)

// Gate stands between the engine and a node that may be replaced: the engine's
// connections outlive the node, since an engine repeats a request without its
// body where a connection breaks. While there is no node, requests wait, until
// the time of a request has passed since the gate was shut; later ones are
// refused at once. So an engine does not notice a short disturbance, and is not
// held up by a long one. Safe for concurrent use; Use [New].
type Gate struct {
	host    string        // name of this one
	timeout time.Duration // of a request
	// asks reports whether the engine answers questions: then it does not start.
	// It must not block. It is called only while the gate is shut.
	asks func() bool

	mu      sync.Mutex
	behind  driver.Backend // nil: the gate is shut
	why     error          // the gate is shut; nil: no reason is known yet
	opened  chan struct{}  // closed when the gate opens
	since   time.Time      // when it was shut
	greeted time.Time      // when the engine last greeted
}

// New returns a gate that is shut. host is the name of this one, and timeout the time of a request. asks reports whether the engine
// answers questions; it must not block, and is called only while the gate is shut.
func New(host string, timeout time.Duration, asks func() bool) *Gate {
	return &Gate{host: host, timeout: timeout, asks: asks, opened: make(chan struct{}), since: time.Now()}
}

// Open has requests served by b from now on, those that wait included.
func (g *Gate) Open(b driver.Backend) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind, g.why = b, nil
	close(g.opened)
}

// Shut has requests wait from now on. It must be open.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind, g.opened, g.since = nil, make(chan struct{}), time.Now()
}

// Explain sets what requests are refused with while the gate is shut.
func (g *Gate) Explain(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = why
}

// enter returns what serves a request, once there is something, or why there is
// nothing.
func (g *Gate) enter(ctx context.Context) (driver.Backend, error) {
	g.mu.Lock()
	behind, opened, patience := g.behind, g.opened, time.Until(g.since.Add(g.timeout))
	g.mu.Unlock()
	if behind != nil {
		return behind, nil
	}
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)-answerAhead)
	}
	timer := time.NewTimer(max(patience, 0))
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.behind != nil {
		return g.behind, nil
	}
	return nil, g.refusal()
}

// refusal returns what a request is refused with. g.mu is held.
func (g *Gate) refusal() error {
	if g.why != nil {
		return g.why
	}
	return &ipam.Error{Kind: ipam.ErrStopped, Text: fmt.Sprintf("ringlet on %s is opening its database: run the command again", g.host)}
}

// away waits until what served a request serves no longer, as it has stopped.
func (g *Gate) away(ctx context.Context, b driver.Backend) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		g.mu.Lock()
		same := g.behind == b
		g.mu.Unlock()
		if !same {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// served has a request served, once more if the node stops meanwhile because of
// its disk: what becomes of a request is not known then, and repeating one for
// an address does no harm. One in which a node has panicked is not repeated.
func served[T any](ctx context.Context, g *Gate, serve func(driver.Backend) (T, error)) (T, error) {
	for {
		b, err := g.enter(ctx)
		if err != nil {
			var none T
			return none, err
		}
		out, err := serve(b)
		stop, stopped := errors.AsType[*node.StopError](err)
		if !stopped || stop.Stack != nil {
			return out, err
		}
		if g.away(ctx, b); ctx.Err() != nil {
			return out, err
		}
	}
}

// RequestPool implements [driver.Backend].
func (g *Gate) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	grant, err := served(ctx, g, func(b driver.Backend) (ipam.PoolGrant, error) { return b.RequestPool(ctx, r) })
	if errors.Is(err, ipam.ErrStopped) {
		if n, ok := g.replayed(r); ok {
			return ipam.PoolGrant{Network: n}, nil
		}
	}
	return grant, err
}

// replayed returns the network of a request that the engine may be replaying, as
// it starts: engines up to 28.5.2 do not start where that is refused. Nothing is
// granted by it. The answer names no gateway, so that the engine asks for it as
// an address, which is refused. A new network is undone by that, and one that the
// engine has stays.
func (g *Gate) replayed(r ipam.PoolRequest) (ipam.Network, bool) {
	g.mu.Lock()
	greeted := g.greeted
	g.mu.Unlock()
	if !r.Pool.IsValid() || r.Space != ipam.Local || time.Since(greeted) > replayTime || g.asks() {
		return ipam.Network{}, false
	}
	n := ipam.Network{
		Space: r.Space, Pool: r.Pool.Masked(), Range: r.Range.Masked(),
		Gateway: r.Gateway, GatewayAddr: r.GatewayAddr, Sticky: r.Sticky, PoolName: r.PoolName, Probe: r.Probe,
		Subnet: r.Subnet,
	}
	if !r.Range.IsValid() {
		n.Range = n.Pool
	}
	known, err := poolid.Parse(n.ID())
	return n, err == nil && known == n
}

// RequestAddress implements [driver.Backend].
func (g *Gate) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	return served(ctx, g, func(b driver.Backend) (ipam.AddressGrant, error) { return b.RequestAddress(ctx, r) })
}

// once has a request served by whatever serves when its turn comes, and not
// repeated: of what frees something a repetition might free what was granted
// since. The engine's list mends what is lost by that.
func (g *Gate) once(ctx context.Context, serve func(driver.Backend) error) error {
	b, err := g.enter(ctx)
	if err != nil {
		return err
	}
	return serve(b)
}

// ReleasePool implements [driver.Backend].
func (g *Gate) ReleasePool(ctx context.Context, n ipam.Network) error {
	return g.once(ctx, func(b driver.Backend) error { return b.ReleasePool(ctx, n) })
}

// ReleaseAddress implements [driver.Backend].
func (g *Gate) ReleaseAddress(ctx context.Context, n ipam.Network, a netip.Addr) error {
	return g.once(ctx, func(b driver.Backend) error { return b.ReleaseAddress(ctx, n, a) })
}

// Withdraw implements [driver.Backend].
func (g *Gate) Withdraw(ctx context.Context, t ipam.Ticket) error {
	return g.once(ctx, func(b driver.Backend) error { return b.Withdraw(ctx, t) })
}

// Greeted implements [driver.Backend]. A node that is made later expects a
// replay without being told.
func (g *Gate) Greeted(ctx context.Context) {
	g.mu.Lock()
	g.greeted = time.Now()
	b := g.behind
	g.mu.Unlock()
	if b != nil {
		b.Greeted(ctx)
	}
}

// Recheck implements [driver.Backend]. What is opened later looks at what the
// engine has without being told.
func (g *Gate) Recheck() {
	g.mu.Lock()
	b := g.behind
	g.mu.Unlock()
	if b != nil {
		b.Recheck()
	}
}
