// Package announcer brings together what starts containers and what announces them: it tells the planner (plugin/announce) what the
// engine asks for and lists, and what the node notes of an address.
//
// It refuses to know when something is announced, how often and in which packets.
package announcer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/ringlet/ringlet/internal/durable"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/announce"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/metrics"
)

// networksName is the file in the data directory with the networks that the engine listed last.
const networksName = "networks.json"

// Announcer has containers that start announced to their neighbours. A nil announcer does nothing (RINGLET_ANNOUNCE=false).
// Safe for concurrent use.
type Announcer struct {
	plan   *announce.Announcer
	node   *node.Node // from before run on
	wire   announce.Wire
	send   func(announce.Packet) (packets int, stale bool, err error) // the wire's
	engine func() dockerd.State
	fault  *fault.Fault
}

// New returns an announcer that has yet to get its node, nil if there is to be none.
func New(on bool, data string, watcher *dockerd.Watcher, m *metrics.Metrics, logger *slog.Logger) *Announcer {
	if !on {
		return nil
	}
	path := filepath.Join(data, networksName)
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("networks of the engine's last list not readable, waiting for another list", logattr.Err(err))
	}
	a := &Announcer{engine: watcher.State, fault: &fault.Fault{
		Logger: logger, Code: "announce-failed",
		Text: func(err error) string {
			return fmt.Sprintf("containers that start cannot be announced (%v): for up to a minute after its start, a container is not reached by machines that have talked to it before", err)
		},
		Next: "give the plugin its capability CAP_NET_RAW, or give containers a fixed MAC and set RINGLET_ANNOUNCE=false",
	}}
	a.send = a.wire.Send
	a.plan = announce.New(announce.Config{
		Held: func(ctx context.Context, at netip.Addr) (announce.MAC, error) { return holderMAC(ctx, a.node, at) },
		Send: func(p announce.Packet) (int, bool, error) { return a.send(p) }, Count: m.Announced, Fault: a.fault.Set, Logger: logger,
		Kept: kept, Keep: func(content []byte) error { return durable.Replace(path, content) },
	})
	return a
}

// Of sets the node that says who holds what.
func (a *Announcer) Of(n *node.Node) {
	if a != nil {
		a.node = n
	}
}

// Problem returns what an operator should know; false if nothing is wrong.
func (a *Announcer) Problem() (ipam.Problem, bool) {
	if a == nil {
		return ipam.Problem{}, false
	}
	return a.fault.Problem()
}

// Run announces until ctx ends. Its error is always nil.
func (a *Announcer) Run(ctx context.Context) error {
	if a == nil {
		<-ctx.Done()
		return nil
	}
	err := a.plan.Run(ctx)
	_ = a.wire.Close() // nothing is left in it
	return err
}

// holderMAC returns the MAC of the container that holds an address on this host, the zero MAC if none does.
func holderMAC(ctx context.Context, n *node.Node, at netip.Addr) (announce.MAC, error) {
	s, err := n.Who(ctx, at)
	switch {
	case errors.Is(err, ipam.ErrPoolNotFound):
		return announce.MAC{}, nil
	case err != nil:
		return announce.MAC{}, err
	case s.State != "held" || s.Kind != "container":
		return announce.MAC{}, nil
	}
	return parse.MAC(s.MAC), nil
}

// speaksIPv6 is the first engine that announces IPv6 addresses itself. It announces IPv4 ones, too, but not those that a
// plugin gave it.
const speaksIPv6 = 28

// Granted takes in that the engine gets an address.
func (a *Announcer) Granted(r *ipam.AddressRequest, g *ipam.AddressGrant) {
	if a != nil && r.Purpose == ipam.ForContainer && a.concerns(g.Address.Addr()) {
		a.plan.Granted(g.Address.Addr(), announce.MAC(r.MAC))
	}
}

// concerns reports whether an address is announced at all.
func (a *Announcer) concerns(at netip.Addr) bool {
	if at.Is4() {
		return true
	}
	n, known := a.engine().Major()
	return !known || n < speaksIPv6 // an engine that has yet to answer may be an old one
}

// Made takes in that the engine gets a pool. One that starts, and answers nothing yet, gets those that it had.
func (a *Announcer) Made(g *ipam.PoolGrant) {
	if a != nil && a.engine().Connected {
		a.plan.Made(g.Network.Pool)
	}
}

// Note takes in what happens to addresses beside what this host's containers ask for.
func (a *Announcer) Note(n *ipam.Note) {
	if a == nil {
		return
	}
	switch n.Kind {
	case ipam.NoteMoved:
		a.plan.Forget(n.Address, n.Last)
	case ipam.NoteStranger:
		a.plan.Forget(n.Address, n.Address)
	case ipam.NotePoolDeleted:
		a.plan.Forget(n.Pool.Addr(), addr.Nth(n.Pool, addr.Whole(n.Pool).End-1))
	case ipam.NoteGranted:
		if k := n.Use.Kind; k != "container" && k != "unmarked" {
			a.plan.Forget(n.Address, n.Address)
		}
	default: // they leave addresses with who has them
	}
}

// Listed takes in what the engine has.
func (a *Announcer) Listed(inv *dockerd.Inventory) {
	if a == nil {
		return
	}
	l := announce.List{Begun: inv.Begun, Complete: inv.Complete}
	for _, n := range inv.Networks {
		out := announce.Network{ID: n.ID, Link: announce.LinkOf(n.Driver, n.ID, n.Internal, n.DriverOptions)}
		for _, s := range n.Subnets {
			if s.Prefix.IsValid() { // else it could not be read
				out.Subnets = append(out.Subnets, s.Prefix)
			}
		}
		for _, e := range n.Endpoints {
			for _, at := range e.Addresses {
				if !a.concerns(at.Addr()) {
					continue
				}
				out.Endpoints = append(out.Endpoints, announce.Endpoint{Address: at.Addr(), MAC: parse.MAC(e.MAC)})
			}
		}
		l.Networks = append(l.Networks, out)
	}
	a.plan.Listed(l)
}
