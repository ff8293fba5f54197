// Package history connects the journal to the node: what is held on this host, in whose range an address is, and what an operator is
// told where it cannot be written.
//
// It refuses to know how the journal is kept on disk, and who reads it.
package history

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/journal"
)

// History is the journal, with what is wrong with it. Addresses are handed out
// whatever that is.
type History struct {
	*journal.Journal
	Fault *fault.Fault
}

// Config is what a history needs.
type Config struct {
	Dir    string // of the journal
	Self   string // the name of this host
	Events *events.Log
	Node   *node.Node
	Edge   *contain.Edge // of what is written
	Logger *slog.Logger
}

// New returns the journal in a directory. It does nothing before it is
// run.
func New(cfg Config) (*History, error) {
	n := cfg.Node
	f := &fault.Fault{
		Logger: cfg.Logger, Code: "journal-unavailable",
		Text: func(err error) string {
			return fmt.Sprintf("what happens is not written down, so that ringlet who --at will not know it: %v", err)
		},
		Next: "see to the disk with the plugin's data; it is tried again within five minutes",
	}
	held := func(ctx context.Context) iter.Seq2[ipam.AddressStatus, error] { return heldHere(ctx, n) }
	owner := func(a netip.Addr) string {
		st, err := n.Snapshot(context.Background()) // which waits for no disk
		if err != nil {
			return "" // the process ends
		}
		return otherOwner(&st, a)
	}
	j, err := journal.New(journal.Config{
		Dir: cfg.Dir, Log: cfg.Events, Self: cfg.Self, Held: held, Owner: owner,
		Report: f.Set, Writing: cfg.Edge,
	})
	if err != nil {
		return nil, err
	}
	return &History{j, f}, nil
}

// otherOwner returns the name of the other peer in whose range an address lies;
// empty if there is none.
func otherOwner(st *ipam.Status, a netip.Addr) string {
	for i := range st.Pools {
		if !st.Pools[i].Pool.Contains(a) {
			continue
		}
		for _, r := range st.Pools[i].Holders {
			if r.Start.Compare(a) > 0 || a.Compare(r.End) > 0 {
				continue
			}
			at := slices.IndexFunc(st.Peers, func(p ipam.PeerStatus) bool { return p.ID == r.Owner })
			if r.Owner != st.Self.ID && at >= 0 {
				return st.Peers[at].Name
			}
		}
	}
	return ""
}

// heldHere lists what is held on this peer, for which it waits as long as the
// machine takes: from an older status what is new would seem to be gone.
func heldHere(ctx context.Context, n *node.Node) iter.Seq2[ipam.AddressStatus, error] {
	return func(yield func(ipam.AddressStatus, error) bool) {
		for q := (ipam.Listing{Held: true}); ; {
			some, err := n.List(ctx, q)
			if err := cmp.Or(err, ctx.Err()); err != nil {
				yield(ipam.AddressStatus{}, err)
				return
			}
			for i := range some.Addresses {
				if !yield(some.Addresses[i], nil) {
					return
				}
			}
			if q.After = some.Next; !q.After.IsValid() {
				return
			}
		}
	}
}
