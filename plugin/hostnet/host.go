// Package hostnet tells the node what the host itself has on its network: the addresses on its interfaces, as the gateways of bridges
// and its own on a LAN that a pool covers, and where its routes lead. It reads them now and then, when somebody asks for them, and as
// soon as the kernel tells of a change.
//
// It refuses to know how the kernel is asked, what the node keeps from whom, and which networks there are.
package hostnet

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/fault"
)

const (
	// interval is how often the host's own addresses are read when nothing
	// else asks for it.
	interval = 20 * time.Second
	// retry is how soon they are read again when they could not be.
	retry = 2 * time.Second
	// fresh is for how long a reading is new enough for a network whose
	// subnet is named: an engine that starts asks for all of its networks at once.
	fresh = 100 * time.Millisecond
)

// Reporter reports to the node which addresses the host has on its interfaces: the
// gateways of bridges, and its own on a LAN that a pool covers. If they cannot be
// read, the node keeps using the last reading, which is on disk. An address missing
// from a failed reading is not freed. Safe for concurrent use.
type Reporter struct {
	node      *node.Node
	addresses func() ([]netip.Prefix, error)
	routes    func() iter.Seq2[kernelnet.Route, error]
	fault     *fault.Fault     // of the addresses
	unrouted  *fault.Fault     // of the routes
	told      []ipam.HostRoute // those that could be read last
	turn      chan struct{}    // full while one reads: an older reading must not come after a newer
	at        time.Time        // of the last reading; who reads has it

	changes func() uint64               // how many changes the kernel has told of
	wait    func(context.Context) error // until it tells of one
	known   atomic.Uint64               // of how many the node knows
	news    chan struct{}               // full when there may be others
	pace    *pace.Pace                  // may be nil

	logger *slog.Logger
}

// Config is what a reporter needs.
type Config struct {
	Node   *node.Node
	Logger *slog.Logger
	Pace   *pace.Pace // may be nil

	// Tests give a host of their own. Nil: the kernel's.
	Addresses func() ([]netip.Prefix, error)
	Routes    func() iter.Seq2[kernelnet.Route, error]
	Changes   func() uint64 // how many changes the kernel has told of; nil: none before [Reporter.Hear]
}

// New returns a reporter that has read nothing yet.
func New(cfg Config) *Reporter {
	logger := cfg.Logger
	h := &Reporter{
		node: cfg.Node, pace: cfg.Pace, addresses: cfg.Addresses, routes: cfg.Routes, turn: make(chan struct{}, 1), logger: logger,
		changes: cfg.Changes, wait: untilDone, news: make(chan struct{}, 1),
		fault: &fault.Fault{
			Logger: logger, Code: "interfaces-unreadable",
			Text: func(err error) string {
				return fmt.Sprintf("the addresses on this host's interfaces cannot be read (%v); those that were known before are still kept from containers, later ones are not", err)
			},
			Next: "see whether the host has run out of file descriptors or memory; they are read again every few seconds",
		},
		unrouted: &fault.Fault{
			Logger: logger, Code: "routes-unreadable",
			Text: func(err error) string {
				return fmt.Sprintf("the routes of this host cannot be read (%v); a network without --subnet may get a subnet that one of them leads to", err)
			},
			Next: "name subnets with --subnet, or what routes lead to in RINGLET_AVOID; they are read again every few seconds",
		},
	}
	if h.addresses == nil {
		h.addresses = kernelnet.Addresses
	}
	if h.routes == nil {
		h.routes = kernelnet.Routes
	}
	if h.changes == nil {
		h.changes = func() uint64 { return 0 }
	}
	return h
}

// Faults returns what may be wrong: the addresses or the routes cannot be read.
func (h *Reporter) Faults() []*fault.Fault { return []*fault.Fault{h.fault, h.unrouted} }

// Hear has the kernel tell of changes, until stop is called. Where it does not tell,
// the addresses are read every [interval] alone.
func (h *Reporter) Hear() (stop func()) {
	kernel, err := kernelnet.OpenChanges(countsAsHost)
	if err != nil {
		h.polls(err)
		return func() {}
	}
	h.changes, h.wait = kernel.Count, kernel.Wait
	return kernel.Close
}

// untilDone waits for nothing but the end of ctx.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *Reporter) polls(err error) {
	h.logger.Warn("address notifications unavailable, polling", slog.Any("err", err))
}

// Listen has the addresses read as soon as the kernel tells of a change, until ctx
// ends.
func (h *Reporter) Listen(ctx context.Context) error {
	for {
		if err := h.wait(ctx); err != nil {
			if ctx.Err() == nil {
				h.polls(err)
			}
			<-ctx.Done()
			return nil
		}
		wake.Up(h.news)
	}
}

// Watch tells the node when something has changed, as far as that is known, and now
// and then, until ctx ends or the node has failed.
func (h *Reporter) Watch(ctx context.Context) error {
	for {
		pause := interval
		for _, f := range h.Faults() {
			if _, wrong := f.Problem(); wrong {
				pause = retry
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.news:
		case <-time.After(h.pace.Round(pause)):
		}
		if err := h.Tell(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// Tell reads the addresses and tells the node. Its errors are the node's, or say
// that ctx has ended.
func (h *Reporter) Tell(ctx context.Context) error {
	return h.tellUnless(ctx, func() bool { return false })
}

// TellSoon is [Reporter.Tell], unless that was done less than [fresh] ago.
func (h *Reporter) TellSoon(ctx context.Context) error {
	return h.tellUnless(ctx, func() bool {
		since := time.Since(h.at)
		return since >= 0 && since < fresh
	})
}

// TellChanges is [Reporter.Tell], if the kernel has told of a change of which the node does not
// know.
func (h *Reporter) TellChanges(ctx context.Context) error {
	known := func() bool { return h.known.Load() == h.changes() }
	if known() {
		return nil
	}
	return h.tellUnless(ctx, known)
}

// tellUnless is [Reporter.Tell], unless that is needless when it is its turn.
func (h *Reporter) tellUnless(ctx context.Context, needless func() bool) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	if needless() {
		return nil
	}
	mark, err := h.node.Mark(ctx)
	if err != nil {
		return err
	}
	changes := h.changes()
	h.at = time.Now()
	h.readRoutes()
	found, err := h.addresses()
	h.fault.Set(err)
	if err != nil {
		return nil // it is a problem of the status, and no reason to end
	}
	var addresses []netip.Prefix
	for _, p := range found {
		if countsAsHost(p.Addr()) {
			addresses = append(addresses, p)
		}
	}
	if err := h.node.HostAddresses(ctx, ipam.HostAddresses{After: mark, Addresses: addresses, Routes: h.told}); err != nil {
		return err
	}
	h.known.Store(changes)
	return nil
}

// maxRoutes is how many routes are read. A host with more has them from a routing
// protocol: to read them all would take long, and they are not on its links.
const maxRoutes = 10_000

// readRoutes reads what the host has routes to, but for its default routes and those that every link has.
func (h *Reporter) readRoutes() {
	var found []ipam.HostRoute
	n := 0
	for r, err := range h.routes() {
		if err != nil {
			h.unrouted.Set(err)
			return
		}
		if r.To.Bits() > 0 && countsAsHost(r.To.Addr()) {
			found = append(found, ipam.HostRoute{To: r.To, OnLink: !r.Gateway.IsValid() && !r.Reject})
		}
		if n++; n == maxRoutes {
			break
		}
	}
	h.unrouted.Set(nil)
	h.told = found
}

// countsAsHost reports whether an address on an interface can be one of a pool: of IPv4 link-local addresses users do make networks,
// and those of IPv6 are on every interface.
func countsAsHost(a netip.Addr) bool { return !a.IsLoopback() && (a.Is4() || !a.IsLinkLocalUnicast()) }
