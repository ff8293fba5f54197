package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/database"
	"github.com/ringlet/ringlet/plugin/decided"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/metrics"
	"github.com/ringlet/ringlet/plugin/networks"
)

// engineCalls is what the driver asks of the rest of the process.
type engineCalls struct {
	*node.Node
	watcher *dockerd.Watcher
	prober  *prober
	host    *hostnet.Reporter
	starts  *announcer
	decided *decided.Keeper
	vain    *networks.Refused
}

// RequestPool grants a pool. Before that it looks at what the host has now: the
// bridge of a network that was removed a moment ago keeps its subnet no longer, and
// on the LAN of a new one the host may have an address since a moment ago.
func (e engineCalls) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	look := e.host.Tell
	if r.Pool.IsValid() {
		look = e.host.TellSoon
	}
	_ = look(ctx) // what was told before stands; the status says what is wrong
	before := e.vain.Before(ctx)
	g, err := e.Node.RequestPool(ctx, r)
	if err == nil {
		e.starts.made(&g)
		e.vain.Granted(before, g.Network.Pool)
	}
	return g, err
}

// ReleasePool forgets a network. If it never came to be, its pool goes, too.
func (e engineCalls) ReleasePool(ctx context.Context, n ipam.Network) error {
	err := e.Node.ReleasePool(ctx, n)
	e.vain.Released(n.Pool)
	return err
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
	if err := e.decided.RefusesRequest(&r); err != nil {
		return ipam.AddressGrant{}, err
	}
	_ = e.host.TellChanges(ctx) // as in RequestPool
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
func deliver(w *dockerd.Watcher, n *node.Node, h *hostnet.Reporter, l *networks.NoMAC, r *networks.Routers, starts *announcer, names *networks.Names, d *decided.Keeper, v *networks.Refused) dockerd.Deliver {
	var mark ipam.Mark
	w.BeforeLook(func(ctx context.Context) {
		mark, _ = n.Mark(ctx) // a node that has stopped says so again when it is given the inventory
	})
	w.WhenAsked(func(ctx context.Context, list dockerd.List) { listNetworks(ctx, w, n, l, r, v, list) })
	return func(ctx context.Context, inv dockerd.Inventory) (time.Duration, error) {
		if inv.Complete {
			l.See(inv.Networks)
			r.See(inv.Networks)
			d.See(inv.Networks)
		}
		names.See(&inv)
		v.See(inv.Networks)
		if err := h.Tell(ctx); err != nil {
			return 0, err
		}
		list := inventory(inv)
		list.After = mark
		again, err := n.Inventory(ctx, list)
		starts.listed(&inv) // now the node knows the MACs
		return again, err
	}
}

// listNetworks has the engine list its networks, and brings the list to the node and to what is wrong with networks, which ends
// with them. Without an answer the next look tells.
func listNetworks(ctx context.Context, w *dockerd.Watcher, n *node.Node, l *networks.NoMAC, r *networks.Routers, v *networks.Refused, list dockerd.List) {
	mark, err := n.Mark(ctx)
	if err != nil {
		return // the node has stopped
	}
	networks, err := list(ctx)
	if err == nil {
		l.See(networks)
		r.See(networks)
		v.See(networks)
		inv := inventory(dockerd.Inventory{Networks: networks, Listed: true})
		inv.After = mark
		_, err = n.Inventory(ctx, inv)
	}
	if err != nil {
		w.Recheck()
	}
}

// inventory translates what the engine said.
func inventory(inv dockerd.Inventory) ipam.Inventory {
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
	decided *decided.Keeper
	watcher *dockerd.Watcher
	sight   sight
	locked  *networks.NoMAC
	routers *networks.Routers
	lost    database.Aside
	former  database.Former
	rejoin  func(ctx context.Context, dryRun bool) (admin.Rejoining, error)
	trust   func(ctx context.Context) (admin.Trusted, error)
	silent  bool // the network is closed, as the database may be a copy
	network *peers
	alone   *fault.Fault // the network is closed; may be nil
	probes  *prober
	starts  *announcer
	names   networks.Names
	others  elsewhere
	faults  []*fault.Fault
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
	out.Pools = s.names.Complete(out.Pools)
	how := s.sight
	how.idle = len(out.Networks) == 0
	if p, wrong := engineProblem(s.watcher.State(), how, out.Verdict == ipam.Fine); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, wrong := s.locked.Problem(s.watcher.State().Names); wrong {
		out.Problems = append(out.Problems, p)
	}
	out.Problems = append(out.Problems, s.routers.Problems(out.Pools)...)
	if p, wrong := s.lost.Problem(s.decided.Restored(), out.State == ipam.Joining); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, wrong := s.decided.Problem(); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, kept := s.former.Problem(); kept {
		out.Problems = append(out.Problems, p)
	}
	closed := false
	if s.alone != nil {
		_, closed = s.alone.Problem()
	}
	if !closed && !s.silent { // else that is the problem
		out = s.network.complete(out)
	}
	if p, wrong := sameNames(out.Peers); wrong {
		out.Problems = append(out.Problems, p)
	}
	out.Problems = append(out.Problems, s.others.problems(&out, time.Now())...)
	out.Problems = append(out.Problems, s.probes.problems(out.Networks)...)
	if p, wrong := s.starts.problem(); wrong {
		out.Problems = append(out.Problems, p)
	}
	for _, f := range s.faults {
		if p, wrong := f.Problem(); wrong {
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
	out.NetworkNames = s.names.Of(out.Pool)
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
func observeNote(m *metrics.Metrics, watcher *dockerd.Watcher, happened *events.Feed, starts *announcer) func(ipam.Note) {
	return func(n ipam.Note) {
		happened.Note(n)
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
		case ipam.NoteDoubted, ipam.NoteUnclear:
			watcher.Recheck() // a call waits for it, or soon may
		case ipam.NoteParted:
			watcher.AskNetworks()
		default: // the log has them
		}
	}
}

// CreatePool is the node's, and has what was decided in the file before it is answered, as have the three below.
func (s *status) CreatePool(ctx context.Context, cidr netip.Prefix, name string) (ipam.PoolStatus, bool, error) {
	defer s.decided.Save(ctx)
	return s.Node.CreatePool(ctx, cidr, name)
}

// RemovePool removes a pool.
func (s *status) RemovePool(ctx context.Context, pool string) error {
	defer s.decided.Save(ctx)
	return s.Node.RemovePool(ctx, pool)
}

// Reserve keeps addresses back for an operator.
func (s *status) Reserve(ctx context.Context, r ipam.ReserveRequest) (ipam.Reserving, error) {
	defer s.decided.Save(ctx)
	return s.Node.Reserve(ctx, r)
}

// Unreserve ends what Reserve began.
func (s *status) Unreserve(ctx context.Context, r ipam.UnreserveRequest) (ipam.Reserving, error) {
	defer s.decided.Save(ctx)
	return s.Node.Unreserve(ctx, r)
}

// Client allocates an address for a holder outside Docker. Which one on a LAN whose exclusions are lost is for an operator to
// say.
func (s *status) Client(ctx context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	if pool, err := netip.ParsePrefix(r.Pool); err == nil && !r.Address.IsValid() {
		if err := s.decided.Refuses(pool); err != nil {
			return ipam.AddressGrant{}, err
		}
	}
	return s.Node.Client(ctx, r)
}
