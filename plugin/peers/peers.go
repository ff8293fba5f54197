// Package peers joins the network between peers (gossip) to what uses it: the node and the directory, whose frames it parts. It looks no
// longer for peers that have left for good, and says what an operator sees of the network.
//
// It refuses to know how frames travel, and what they mean.
package peers

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

// Peers is this peer's end of the network between peers, nil where there is
// none: a peer that has neither a key nor leave to do without one listens to
// nobody.
type Peers struct{ *gossip.Gossip }

// Config is what the network is made of.
type Config struct {
	Settings  config.Config
	Node      *node.Node
	Directory *directory.Directory
	Events    *events.Feed
	Pace      *pace.Pace // may be nil
	Edge      *contain.Edge
	Logger    *slog.Logger
}

// New brings the node and the other peers together.
func New(ctx context.Context, cfg Config) (*Peers, error) {
	if len(cfg.Settings.Keys) == 0 && !cfg.Settings.Insecure {
		return nil, nil
	}
	settings, err := network(ctx, cfg)
	if err != nil {
		return nil, err
	}
	settings.Pace = cfg.Pace
	contained(&settings, cfg.Edge)
	return connect(settings, cfg.Node, cfg.Directory)
}

// network returns how the network is set up.
func network(ctx context.Context, c Config) (gossip.Config, error) {
	cfg, n := c.Settings, c.Node
	id, err := n.Identity(ctx)
	if err != nil {
		return gossip.Config{}, err
	}
	settings := gossip.Config{
		ID: id.ID, Name: id.Name, Boot: id.Boot, Nonce: id.Nonce,
		Bind: cfg.Bind, Advertise: cfg.Advertise, Join: cfg.Join, Label: cfg.Cluster,
		Deliver: split(n, c.Directory), Digest: c.Directory.Heard, Presence: present(n, c.Events), SeedIndex: n.PresentSelf, Logger: c.Logger,
	}
	if len(cfg.Keys) > 0 {
		settings.Keys = cfg.ReadKeys
	}
	for other, at := range id.Known {
		if a, err := netip.ParseAddrPort(at); err == nil {
			settings.Remembered = append(settings.Remembered, gossip.Contact{ID: other, Addr: a})
		}
	}
	return settings, nil
}

// contained has a panic in what the network hands over cost no more than that.
func contained(settings *gossip.Config, edge *contain.Edge) {
	deliver, digest, presence, seedIndex := settings.Deliver, settings.Digest, settings.Presence, settings.SeedIndex
	settings.Deliver = func(arrived iter.Seq2[[]byte, int]) { edge.Do(func() { deliver(arrived) }) }
	settings.Digest = func(from peer.ID, n uint64) { edge.Do(func() { digest(from, n) }) }
	settings.Presence = func(p gossip.Presence) { edge.Do(func() { presence(p) }) }
	settings.SeedIndex = func(i int) { edge.Do(func() { seedIndex(i) }) }
}

// connect has the frames of the node and the directory carried.
func connect(settings gossip.Config, n *node.Node, d *directory.Directory) (*Peers, error) {
	g, err := gossip.New(settings)
	if err != nil {
		return nil, err
	}
	n.Carry(g)
	d.Carry(g)
	return &Peers{g}, nil
}

// present tells the node what the network believes of other peers, which may be
// a problem from then on.
func present(n *node.Node, happened *events.Feed) func(gossip.Presence) {
	return func(p gossip.Presence) {
		ev := ipam.Presence{Peer: p.ID, Alive: p.Alive, Name: p.Name, Seat: p.SeedIndex}
		if p.Addr.IsValid() {
			ev.Addr = p.Addr.String()
		}
		n.Present(ev)
		happened.Stirred()
	}
}

// Run runs the network until ctx ends.
func (p *Peers) Run(ctx context.Context, n *node.Node) error {
	var forgetting sync.WaitGroup
	defer forgetting.Wait()
	forgetting.Go(func() { p.forgetGone(ctx, n) })
	return p.Gossip.Run(ctx)
}

// forgetInterval is how often it is seen to that nobody is looked for who has
// left the cluster for good.
const forgetInterval = time.Minute

// forgetGone stops looking for peers that have left for good, or whose space
// was given up. One that still answers stays known until it does not: hence
// it is done again and again.
func (p *Peers) forgetGone(ctx context.Context, n *node.Node) {
	ticker := time.NewTicker(forgetInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var known []peer.ID
		for _, c := range p.Contacts() {
			known = append(known, c.ID)
		}
		gone, err := n.Gone(ctx, known)
		if err != nil {
			continue // the node has stopped, or is busy
		}
		for _, id := range gone {
			p.Forget(id)
		}
	}
}

// Join meets the host at an address.
func (p *Peers) Join(ctx context.Context, address string) ([]admin.Met, error) {
	if p == nil {
		return nil, &ipam.Error{Kind: ipam.ErrBadRequest, Text: "this host has no key, so it talks to no other host: set RINGLET_KEY or RINGLET_KEY_FILE to the key of the cluster, or RINGLET_INSECURE=true to go without encryption, and restart it"}
	}
	present, err := p.Meet(ctx, address)
	if err != nil {
		kind := ipam.ErrUnreachable
		if _, ok := errors.AsType[*gossip.AddressError](err); ok {
			kind = ipam.ErrBadRequest
		}
		return nil, &ipam.Error{Kind: kind, Text: err.Error()}
	}
	met := make([]admin.Met, len(present))
	for i, other := range present {
		met[i] = admin.Met{ID: other.ID.String(), Name: string(other.Name), Address: other.Addr.String()}
	}
	return met, nil
}

// Complete adds to a status what is wrong with the network between peers, and
// where this one is itself, which its node does not know.
func (p *Peers) Complete(st ipam.Status) ipam.Status {
	if p == nil {
		if len(st.Peers) < 2 && st.State == ipam.Alone {
			return st
		}
		st.Problems = append(st.Problems, ipam.Problem{
			Code: "no-key", Level: string(ipam.Degraded),
			Text: "this host knows other hosts but has no key, so it talks to none of them",
			Next: "set RINGLET_KEY or RINGLET_KEY_FILE to the key of the cluster, or RINGLET_INSECURE=true to go without encryption",
		})
		return st
	}
	now := p.Status()
	st.Problems = withCauses(st.Problems, now.Problems)
	if !now.Self.IsValid() {
		return st
	}
	st.Self.Address = now.Self.String()
	st.Peers = slices.Clone(st.Peers) // others read the same snapshot
	for i := range st.Peers {
		if st.Peers[i].ID == st.Self.ID {
			st.Peers[i].Address = st.Self.Address
		}
	}
	return st
}

// withCauses adds to the problems of a status those of the network between peers: behind what keeps this peer from
// anything, and before what may follow from them, as that no majority is reached. To recover, which is advised then, is
// wrong for a host that has a wrong key.
func withCauses(problems []ipam.Problem, network []gossip.Problem) []ipam.Problem {
	at := slices.IndexFunc(problems, func(p ipam.Problem) bool { return p.Level != string(ipam.Failed) })
	if at < 0 {
		at = len(problems)
	}
	causes := make([]ipam.Problem, 0, len(network))
	for _, p := range network {
		causes = append(causes, ipam.Problem{Code: p.Code, Level: string(ipam.Degraded), Text: p.Text, Next: p.Next})
	}
	return slices.Concat(problems[:at], causes, problems[at:])
}

// split brings what arrives to the directory if it is the directory's, and all
// else to the node: none of the two waits for the other.
func split(n *node.Node, d *directory.Directory) func(arrived iter.Seq2[[]byte, int]) {
	return func(arrived iter.Seq2[[]byte, int]) {
		n.Deliver(func(yield func([]byte, int) bool) {
			for frame, seat := range arrived {
				if wire.TypeOf(frame) == wire.TypeDirectory {
					d.Deliver(frame)
				} else if !yield(frame, seat) {
					return
				}
			}
		})
	}
}
