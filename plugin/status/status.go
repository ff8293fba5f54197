// Package status is what operators see of this host: the node, with the problems of all parts around it in one order, and the operations
// that concern more than the node.
//
// It refuses to know how a part finds out what is wrong with it, and how an operator is answered.
package status

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/database"
	"github.com/ringlet/ringlet/plugin/decided"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/networks"
)

// Config is what a status is made of. All but Node is needed for a status; without it the node's own operations go through.
type Config struct {
	Node    *node.Node
	Decided *decided.Keeper
	Watcher *dockerd.Watcher
	Engine  EngineAccess
	NoMAC   *networks.NoMAC
	Routers *networks.Routers
	Names   *networks.Names
	Lost    database.Aside
	Former  database.Former
	Rejoin  func(ctx context.Context, dryRun bool) (admin.Rejoining, error)
	Silent  bool         // the network is closed, as the database may be a copy
	Trusted func()       // called when an operator trusts such a database
	Alone   *fault.Fault // the network is closed; may be nil
	Network Network
	Probes  interface {
		Problems(of []ipam.NetStatus) []ipam.Problem
	}
	Starts interface {
		Problem() (ipam.Problem, bool)
	}
	Health interface { // may be nil
		Complete(st ipam.Status, now time.Time) ipam.Status
	}
	List   func() []directory.Item // what each peer says of itself; nil: nothing is known of others
	Faults []*fault.Fault          // of other parts
}

// Network is the network between peers.
type Network interface {
	Join(ctx context.Context, address string) ([]admin.Met, error)
	Complete(st ipam.Status) ipam.Status
}

// Status is the node with what its status lacks: the engine, and the parts of the process around the node. Use New.
type Status struct {
	*node.Node
	cfg    Config
	others elsewhere
}

// New returns the status of a node.
func New(cfg Config) *Status {
	return &Status{Node: cfg.Node, cfg: cfg, others: elsewhere{list: cfg.List}}
}

// Status adds how far this peer sees what its engine does, and what is wrong
// with the process's other parts.
func (s *Status) Status(ctx context.Context) (ipam.Status, error) {
	return s.complete(s.Node.Status(ctx))
}

// Snapshot is the same of what was last known of the node, at once.
func (s *Status) Snapshot(ctx context.Context) (ipam.Status, error) {
	return s.complete(s.Node.Snapshot(ctx))
}

func (s *Status) complete(out ipam.Status, err error) (ipam.Status, error) {
	if err != nil {
		return out, err
	}
	out.Pools = s.cfg.Names.Complete(out.Pools)
	how := s.cfg.Engine
	how.idle = len(out.Networks) == 0
	if p, wrong := engineProblem(s.cfg.Watcher.State(), how, out.Verdict == ipam.Fine); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, wrong := s.cfg.NoMAC.Problem(s.cfg.Watcher.State().Names); wrong {
		out.Problems = append(out.Problems, p)
	}
	out.Problems = append(out.Problems, s.cfg.Routers.Problems(out.Pools)...)
	if p, wrong := s.cfg.Lost.Problem(s.cfg.Decided.Restored(), s.cfg.Decided.Keeps(), out.State == ipam.Joining); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, wrong := s.cfg.Decided.Problem(); wrong {
		out.Problems = append(out.Problems, p)
	}
	if p, kept := s.cfg.Former.Problem(); kept {
		out.Problems = append(out.Problems, p)
	}
	closed := false
	if s.cfg.Alone != nil {
		_, closed = s.cfg.Alone.Problem()
	}
	if !closed && !s.cfg.Silent { // else that is the problem
		out = s.cfg.Network.Complete(out)
	}
	if p, wrong := sameNames(out.Peers); wrong {
		out.Problems = append(out.Problems, p)
	}
	out = s.others.complete(out, time.Now())
	if s.cfg.Health != nil {
		out = s.cfg.Health.Complete(out, time.Now())
	}
	out.Problems = append(out.Problems, s.cfg.Probes.Problems(out.Networks)...)
	if p, wrong := s.cfg.Starts.Problem(); wrong {
		out.Problems = append(out.Problems, p)
	}
	for _, f := range s.cfg.Faults {
		if p, wrong := f.Problem(); wrong {
			out.Problems = append(out.Problems, p)
		}
	}
	out.Problems = closedFirst(out.Problems, out.State)
	for _, p := range out.Problems {
		if ipam.Verdict(p.Level) == ipam.Failed || out.Verdict == ipam.Fine {
			out.Verdict = ipam.Verdict(p.Level)
		}
	}
	return out, nil
}

// closedFirst moves to the front that the network between hosts is closed: all else may follow from it. A host that is in no
// cluster hands out nothing because of it.
func closedFirst(problems []ipam.Problem, state ipam.State) []ipam.Problem {
	i := slices.IndexFunc(problems, func(p ipam.Problem) bool { return p.Code == "network-closed" })
	if i < 0 {
		return problems
	}
	closed := problems[i]
	if state == ipam.Joining {
		closed.Level = string(ipam.Failed)
	}
	return slices.Concat([]ipam.Problem{closed}, problems[:i], problems[i+1:])
}

// Explain adds the names of the networks on the pool.
func (s *Status) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	out, err := s.Node.Explain(ctx, a)
	out.NetworkNames = s.cfg.Names.Of(out.Pool)
	return out, err
}

// Join meets another peer.
func (s *Status) Join(ctx context.Context, address string) ([]admin.Met, error) {
	if s.cfg.Silent {
		return nil, &ipam.Error{Kind: ipam.ErrSuspended, Text: "this host talks to no other host while its database may be a copy: see ringlet status"}
	}
	return s.cfg.Network.Join(ctx, address)
}

// Rejoin has this host start over as a new peer.
func (s *Status) Rejoin(ctx context.Context, dryRun bool) (admin.Rejoining, error) {
	return s.cfg.Rejoin(ctx, dryRun)
}

// Trust has the peer go on with a database that was moved, and then hear from other hosts again; or, where the database was lost and
// nothing new is handed out on LANs, ends that.
func (s *Status) Trust(ctx context.Context) (admin.Trusted, error) {
	trust := s.Node.Trust
	if !s.cfg.Silent && s.cfg.Decided.Unsure() {
		trust = func(context.Context) error { return s.cfg.Decided.Trust() }
	}
	if err := trust(ctx); err != nil {
		return admin.Trusted{}, err
	}
	st, err := s.Node.Status(ctx)
	if s.cfg.Silent {
		s.cfg.Trusted()
	}
	return admin.Trusted{Peer: st.Self.Name, ID: st.Self.ID, State: st.State}, err
}
