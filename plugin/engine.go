package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/metrics"
)

// engineCalls is what the driver asks of the rest of the process.
type engineCalls struct {
	*node.Node
	watcher *dockerd.Watcher
	prober  *prober
	host    *host
	starts  *announcer
}

// RequestPool grants a pool. Before that it looks at what the host has now: the
// bridge of a network that was removed a moment ago keeps its subnet no longer, and
// on the LAN of a new one the host may have an address since a moment ago.
func (e engineCalls) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	look := e.host.tell
	if r.Pool.IsValid() {
		look = e.host.tellSoon
	}
	_ = look(ctx) // what was told before stands; the status says what is wrong
	g, err := e.Node.RequestPool(ctx, r)
	if err == nil {
		e.starts.made(&g)
	}
	return g, err
}

// Greeted has the node expect a replay, and looks at what the engine has.
func (e engineCalls) Greeted(ctx context.Context) {
	_ = e.Greet(ctx) // it fails only if everything else does, too
	e.watcher.Recheck()
}

// RequestAddress grants an address that the host itself does not have by now, and
// asks the LAN about it first where the network wants that. After a refusal it looks
// at what the engine has: of a start that fails for its second address the engine
// never releases the first.
func (e engineCalls) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	_ = e.host.tellChanges(ctx) // as in RequestPool
	g, err := e.prober.grant(ctx, r)
	if err != nil {
		e.watcher.Recheck()
	} else {
		e.starts.granted(&r, &g)
	}
	return g, err
}

// Recheck looks at what the engine has, soon.
func (e engineCalls) Recheck() { e.watcher.Recheck() }

// deliver brings inventories to the node, also those that are not complete:
// what they have is in use. The node's mark is taken before the engine is asked.
func deliver(w *dockerd.Watcher, n *node.Node, h *host, l *locked, starts *announcer, names *networkNames) dockerd.Deliver {
	var mark ipam.Mark
	w.BeforeLook(func(ctx context.Context) {
		mark, _ = n.Mark(ctx) // a node that has stopped says so again when it is given the inventory
	})
	return func(ctx context.Context, inv dockerd.Inventory) (time.Duration, error) {
		if inv.Complete {
			l.see(inv.Networks)
		}
		names.see(&inv)
		if err := h.tell(ctx); err != nil {
			return 0, err
		}
		list := inventory(inv)
		list.After = mark
		again, err := n.Inventory(ctx, list)
		starts.listed(&inv) // now the node knows the MACs
		return again, err
	}
}

// inventory translates what the engine said.
func inventory(inv dockerd.Inventory) ipam.Inventory {
	out := ipam.Inventory{Partial: !inv.Complete}
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
					Address: a.Addr(), Container: e.Container, Name: e.Name, MAC: parseMAC(e.MAC),
				})
			}
		}
		out.Networks = append(out.Networks, net)
	}
	return out
}

// parseMAC returns the zero MAC for a text that is none.
func parseMAC(s string) (m ipam.MAC) {
	if hw, err := net.ParseMAC(s); err == nil && len(hw) == len(m) {
		copy(m[:], hw)
	}
	return m
}

// status is the node with what its status lacks: the engine, and the parts of
// the process around the node.
type status struct {
	*node.Node
	watcher *dockerd.Watcher
	sight   sight
	locked  *locked
	lost    aside
	former  former
	rejoin  func(ctx context.Context, dryRun bool) (admin.Rejoining, error)
	trust   func(ctx context.Context) (admin.Trusted, error)
	silent  bool // the network is closed, as the database may be a copy
	network *peers
	alone   *fault // the network is closed; may be nil
	probes  *prober
	starts  *announcer
	names   networkNames
	others  elsewhere
	faults  []*fault
}

// Status adds how far this peer sees what its engine does, and what is wrong
// with the process's other parts.
func (s *status) Status(ctx context.Context) (ipam.Status, error) {
	return s.complete(s.Node.Status(ctx))
}

// Snapshot is the same of what was last known of the node, at once.
func (s *status) Snapshot(ctx context.Context) (ipam.Status, error) {
	return s.complete(s.Node.Snapshot(ctx))
}

func (s *status) complete(out ipam.Status, err error) (ipam.Status, error) {
	if err != nil {
		return out, err
	}
	out.Pools = s.names.complete(out.Pools)
	how := s.sight
	how.idle = len(out.Networks) == 0
	if p, wrong := engineProblem(s.watcher.State(), how, out.Verdict == ipam.Fine); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, wrong := s.locked.problem(s.watcher.State().Names); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, wrong := s.lost.problem(); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, kept := s.former.problem(); kept {
		out.Problems = append(out.Problems, p)
	}
	closed := false
	if s.alone != nil {
		_, closed = s.alone.problem()
	}
	if !closed && !s.silent { // else that is the problem
		out = s.network.complete(out)
	}
	out.Problems = append(out.Problems, s.others.problems(&out, time.Now())...)
	out.Problems = append(out.Problems, s.probes.problems(out.Networks)...)
	if p, wrong := s.starts.problem(); wrong {
		out.Problems = append(out.Problems, p)
	}
	for _, f := range s.faults {
		if p, wrong := f.problem(); wrong {
			out.Problems = append(out.Problems, p)
		}
	}
	for _, p := range out.Problems {
		if ipam.Verdict(p.Level) == ipam.Failed || out.Verdict == ipam.Fine {
			out.Verdict = ipam.Verdict(p.Level)
		}
	}
	return out, nil
}

// Explain adds the names of the networks on the pool.
func (s *status) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	out, err := s.Node.Explain(ctx, a)
	out.NetworkNames = s.names.of(out.Pool)
	return out, err
}

// Join meets another peer.
func (s *status) Join(ctx context.Context, address string) ([]admin.Met, error) {
	if s.silent {
		return nil, &ipam.Error{Kind: ipam.ErrSuspended, Text: "this host talks to no other host while its database may be a copy: see ringlet status"}
	}
	return s.network.Join(ctx, address)
}

// Rejoin has this host start over as a new peer.
func (s *status) Rejoin(ctx context.Context, dryRun bool) (admin.Rejoining, error) {
	return s.rejoin(ctx, dryRun)
}

// Trust has the peer go on with a database that was moved.
func (s *status) Trust(ctx context.Context) (admin.Trusted, error) { return s.trust(ctx) }

// ipvlan is the network driver that starts no container which was given a MAC.
const ipvlan = "ipvlan"

// locked is the networks on which no container starts, since the engine gives each a MAC
// (RINGLET_MAC). Safe for concurrent use.
type locked struct {
	mac      bool // the setting
	inPlugin bool
	names    atomic.Pointer[[]string] // of the networks, in order; nil: none is known
}

// see takes note of the networks that the engine has.
func (l *locked) see(networks []dockerd.Network) {
	var names []string
	for _, n := range networks {
		if l.mac && n.Driver == ipvlan {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	l.names.Store(&names)
}

// problem returns what an operator should know; false if nothing is wrong. self is what this plugin is
// called.
func (l *locked) problem(self []string) (ipam.Problem, bool) {
	names := l.names.Load()
	if names == nil || len(*names) == 0 {
		return ipam.Problem{}, false
	}
	which := "network " + (*names)[0] + " is"
	switch more := len(*names) - 1; {
	case more == 1:
		which = fmt.Sprintf("networks %s and %s are", (*names)[0], (*names)[1])
	case more > 1:
		which = fmt.Sprintf("network %s and %d others are", (*names)[0], more)
	}
	next := "restart ringlet serve with RINGLET_MAC=false, and then the engine"
	if l.inPlugin {
		name := "ringlet:latest"
		if len(self) > 0 {
			name = self[0]
		}
		next = fmt.Sprintf("docker plugin disable --force %s, docker plugin set %[1]s RINGLET_MAC=false, docker plugin enable %[1]s; running containers go on", name)
	}
	return ipam.Problem{
		Code: "mac-on-ipvlan", Level: string(ipam.Degraded),
		Text: which + " of driver " + ipvlan + ", on which no container starts while the engine gives each one a MAC",
		Next: next,
	}, true
}

// sight is how this process comes to see its engine.
type sight struct {
	inPlugin bool // through the mount of a managed plugin
	named    bool // through the socket that --docker-socket names
	idle     bool // no engine has a network here
}

// engineProblem returns what an operator should know of the connection to the
// engine; false if nothing is wrong. All else is fine, or it is not sure that
// addresses are handed out.
func engineProblem(engine dockerd.State, how sight, fine bool) (ipam.Problem, bool) {
	name, look := "set the plugin's mount docker to a directory with docker.sock in it", "the plugin's mount docker has its directory"
	if !how.inPlugin {
		name, look = "name the engine's socket with --docker-socket", "it listens on the socket that --docker-socket names"
	}
	switch {
	case engine.Socket == "" && !how.inPlugin && how.idle: // --docker-socket says that there is none
	case !engine.Connected && !how.named && !exists(engine.Socket):
		return ipam.Problem{
			Code: "no-docker-socket", Level: string(ipam.Degraded),
			Text: "this host cannot ask its engine which containers exist, and relies on what the engine replays when it starts",
			Next: name + ", so that addresses of containers that vanish are freed",
		}, true
	case !engine.Connected && !engine.Since.IsZero() && time.Since(engine.Since) > 10*time.Second:
		text := "the engine's list cannot be read: " + engine.LastError
		if fine {
			text += "; this host still hands out addresses"
		}
		return ipam.Problem{
			Code: "engine-unreachable", Level: string(ipam.Degraded), Text: text,
			Next: "check that the engine runs, and that " + look,
		}, true
	case engine.Connected && !engine.Failing.IsZero() && time.Since(engine.Failing) > longIncomplete:
		return ipam.Problem{
			Code: "inventory-incomplete", Level: string(ipam.Degraded),
			Text: fmt.Sprintf("the engine's list has been incomplete for %v (%s): until it is complete, addresses of containers that vanish are not freed", time.Since(engine.Failing).Round(time.Second), engine.LastError),
			Next: "check that docker network inspect answers for each network; if it does not, restart the engine",
		}, true
	}
	return ipam.Problem{}, false
}

// longIncomplete is how long looks at the engine may fail before that is a
// problem: one that is busy, or makes networks one after the other, soon answers.
const longIncomplete = time.Minute

// exists reports whether there is a file of that name.
func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}

// observeNote makes events of the notes, counts those that have a metric, and looks at what the engine
// has where a note asks for it.
func observeNote(m *metrics.Metrics, watcher *dockerd.Watcher, happened *stream, starts *announcer) func(ipam.Note) {
	return func(n ipam.Note) {
		happened.note(n)
		starts.note(&n)
		switch n.Kind {
		case ipam.NoteLeakFound:
			m.LeaksFound(1)
		case ipam.NoteLeakMended:
			m.LeaksMended(1)
		case ipam.NoteAnswered:
			m.Asked(n.To)
		case ipam.NoteInherited:
			watcher.Recheck() // what lives in it is to be known before anything else is done
		case ipam.NoteDoubted, ipam.NoteUnclear, ipam.NoteParted:
			watcher.Recheck() // a call waits for it, or soon may
		default: // the log has them
		}
	}
}
