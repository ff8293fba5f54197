// Package startover has a host start over as a new peer: its node retires, another database takes the place of the former one, and who has
// asked for it is told what the new peer carries over. The sockets stay open.
//
// It refuses to know how a node is built, and what a new peer does with what it carries over.
package startover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/admin"
)

// Error is why an instance ends: an operator has its host start over as a new peer. The sockets stay open, and what is asked
// meanwhile is answered by the instance of the new peer.
type Error struct {
	former  ipam.Identity
	remains ipam.Remains
	done    chan struct{} // closed when there is an instance again, or none could be built
	kept    string        // where the former database is
	err     error         // why it is in use still
}

func (*Error) Error() string { return "this host starts over as a new peer" }

// Of returns the error of an instance that ends because its host starts over; nil for any other.
func Of(err error) *Error {
	a, _ := errors.AsType[*Error](err)
	return a
}

// Rejoin has the host of n start over, and returns what the new peer carries over. Where ctx ends before that is done it goes on.
func Rejoin(ctx context.Context, n *node.Node, dryRun bool) (admin.Rejoining, error) {
	id, err := n.Identity(ctx)
	if err != nil {
		return admin.Rejoining{}, err
	}
	if dryRun {
		r, err := n.Remains(ctx)
		if err != nil {
			return admin.Rejoining{}, err
		}
		return rejoining(id, r), nil
	}
	a := &Error{former: id, done: make(chan struct{})}
	if err := n.Retire(ctx, func(r ipam.Remains) error { a.remains = r; return a }); err != nil {
		return admin.Rejoining{}, err
	}
	out := rejoining(id, a.remains)
	select {
	case <-a.done:
	case <-ctx.Done():
		return out, nil
	}
	if a.err != nil {
		return admin.Rejoining{}, &ipam.Error{Kind: ipam.ErrStopped, Text: fmt.Sprintf(
			"ringlet on %s did not start over (%v): its database is as it was; see to the disk with the plugin's data, and run the command again", id.Name, a.err)}
	}
	out.Kept = filepath.Base(a.kept)
	return out, nil
}

// rejoining says what a new peer carries over.
func rejoining(former ipam.Identity, r ipam.Remains) admin.Rejoining {
	out := admin.Rejoining{Former: former.ID.String(), InUse: len(r.Used), Peers: []string{}, Clients: []admin.Claim{}}
	for _, c := range r.Contacts {
		if c.Addr != "" {
			out.Peers = append(out.Peers, string(c.Name)+" at "+c.Addr)
		}
	}
	for _, c := range r.Clients {
		out.Clients = append(out.Clients, admin.Claim{Address: c.Address, Pool: c.Pool, For: c.ID})
	}
	return out
}

// Succeed puts a new database in the place of the one that is open, and closes that. first makes the first commit of the new peer.
func (a *Error) Succeed(store *persist.Store, first func(store *persist.Store, remains *ipam.Remains) error, logger *slog.Logger) {
	a.kept, a.err = store.Supersede(func(s *persist.Store) error { return first(s, &a.remains) })
	if a.err != nil {
		logger.Error("host did not start over", logattr.Err(a.err))
		return
	}
	logger.Warn("host started over", slog.String("former", a.former.ID.String()), slog.String("kept", a.kept),
		slog.Int("clients", len(a.remains.Clients)), slog.Int("in_use", len(a.remains.Used)))
}

// Settle tells who has had the host start over how that went: there is an instance again, or none could be built.
func (a *Error) Settle() { close(a.done) }
