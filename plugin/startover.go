package main

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

// startOverError is why an instance ends: an operator has its host start over as a new peer. The sockets stay open, and what is asked
// meanwhile is answered by the instance of the new peer.
type startOverError struct {
	former  ipam.Identity
	remains ipam.Remains
	done    chan struct{} // closed when there is an instance again, or none could be built
	kept    string        // where the former database is
	err     error         // why it is in use still
}

func (*startOverError) Error() string { return "this host starts over as a new peer" }

func startsOver(err error) bool {
	_, ok := errors.AsType[*startOverError](err)
	return ok
}

// rejoin has this host start over, and returns what the new peer carries over. Where ctx ends before that is done it goes on.
func (in *instance) rejoin(ctx context.Context, dryRun bool) (admin.Rejoining, error) {
	id, err := in.node.Identity(ctx)
	if err != nil {
		return admin.Rejoining{}, err
	}
	if dryRun {
		r, err := in.node.Remains(ctx)
		if err != nil {
			return admin.Rejoining{}, err
		}
		return rejoining(id, r), nil
	}
	a := &startOverError{former: id, done: make(chan struct{})}
	if err := in.node.Retire(ctx, func(r ipam.Remains) error { a.remains = r; return a }); err != nil {
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

// trustWhat ends what an operator can end by a word: that the database was moved, or that it was lost and nothing new is
// handed out on LANs.
func (in *instance) trustWhat(ctx context.Context) error {
	if !in.silent && in.decided.Unsure() {
		return in.decided.Trust()
	}
	return in.node.Trust(ctx)
}

// trust has the peer go on with a database that was moved, and then hear from other hosts again.
func (in *instance) trust(ctx context.Context) (admin.Trusted, error) {
	if err := in.trustWhat(ctx); err != nil {
		return admin.Trusted{}, err
	}
	st, err := in.node.Status(ctx)
	if in.silent {
		in.once.Do(func() { close(in.trusted) })
	}
	return admin.Trusted{Peer: st.Self.Name, ID: st.Self.ID, State: st.State}, err
}

// untilTrusted ends an instance without a network once its database is trusted, so that the next one has one.
func (in *instance) untilTrusted(ctx context.Context) error {
	select {
	case <-in.trusted:
		return errOpenAgain
	case <-ctx.Done():
		return nil
	}
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

// succeed puts a new database in the place of the one that is open, and closes that.
func (f *front) succeed(a *startOverError, store *persist.Store) {
	f.successor = a
	a.kept, a.err = store.Supersede(func(s *persist.Store) error { return f.firstCommit(s, &a.remains) })
	if a.err != nil {
		f.logger.Error("host did not start over", logattr.Err(a.err))
		return
	}
	f.logger.Warn("host started over", slog.String("former", a.former.ID.String()), slog.String("kept", a.kept),
		slog.Int("clients", len(a.remains.Clients)), slog.Int("in_use", len(a.remains.Used)))
}

// firstCommit makes the first commit of a new peer.
func (f *front) firstCommit(store *persist.Store, remains *ipam.Remains) error {
	machine := machineConfig(f.cfg)
	f.complete(&machine, store, false)
	machine.Remains = remains
	n, err := node.New(node.Config{Machine: machine, Store: store, Logger: f.logger, Timeout: f.cfg.Timeout})
	if err != nil {
		return err
	}
	n.Wait()
	return nil
}

// settle tells who has had this host start over how that went.
func (f *front) settle() {
	if f.successor != nil {
		close(f.successor.done)
		f.successor = nil
	}
}
