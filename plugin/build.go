package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/claims"
	"github.com/ringlet/ringlet/plugin/database"
	"github.com/ringlet/ringlet/plugin/decided"
	"github.com/ringlet/ringlet/plugin/decisions"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/identity"
	"github.com/ringlet/ringlet/plugin/locks"
	"github.com/ringlet/ringlet/plugin/networks"
)

// instance is a node on its open database, with all that belongs to it. It ends
// as a whole, and another one is built in its place. Use [front.build].
type instance struct {
	front   *front
	store   *persist.Store
	node    *node.Node
	watcher *dockerd.Watcher
	decided *decided.Keeper
	network *peers // nil: there is none
	silent  bool   // the database may be a copy: no other host is to hear from this one
	host    *hostnet.Reporter
	starts  *announcer // nil: containers are not announced
	calls   engineCalls
	view    *status
	record  *record
	shared  *directory.Directory
	self    ipam.Identity
	servers servers

	parts []func(context.Context) error
	undo  []func() // in reverse order

	hide, once sync.Once
	trusted    chan struct{}   // closed when an operator trusts a database that was moved
	startOver  *startOverError // an operator has this host start over; nil: nobody has. Set when it ends
}

// build opens the database and makes the parts around it. Nothing runs yet, and
// nothing stays behind after an error.
func (f *front) build(ctx context.Context) (_ *instance, err error) {
	in := &instance{front: f, trusted: make(chan struct{})}
	defer func() {
		if err != nil {
			in.release()
		}
	}()
	f.garbage.hold()
	if in.watcher, err = newWatcher(f.opts, f.cfg.IdentityLabels, f.plugin, f.logger); err != nil {
		return nil, err
	}
	machine := machineConfig(f.cfg)
	happened := events.NewFeed(f.pace, f.edge("events"))
	if err := in.open(machine, happened); err != nil {
		return nil, err
	}
	id, err := in.node.Identity(ctx)
	if err != nil {
		return nil, err
	}
	in.self = id
	happened.Begin(id)
	f.events.Store(happened.Log())
	if err := in.connect(ctx, id, happened); err != nil {
		return nil, err
	}
	if err := in.show(ctx, happened); err != nil {
		return nil, err
	}
	return in, nil
}

// open opens the database and makes its node.
func (in *instance) open(machine ipam.Config, happened *events.Feed) error {
	f := in.front
	preview := node.NewPreview(machine)
	store, damaged, err := database.Open(f.database(), f.lists, preview, f.disk.Ballast, f.logger)
	if err != nil {
		return err
	}
	in.store = store
	in.undo = append(in.undo, in.closeStore)
	f.catch()
	if in.decided, err = decided.Open(f.opts.Data, f.cfg.Name, version, f.logger); err != nil {
		return err
	}
	f.complete(&machine, store, damaged || in.decided.Shared())
	machine.Decided = in.decided.Known()
	in.starts = newAnnouncer(f.cfg.Announce, f.opts.Data, in.watcher, f.meter, f.logger)
	in.node, err = node.New(node.Config{
		Machine: machine, Store: store, Preview: preview, Logger: f.logger, Timeout: f.cfg.Timeout, Closed: f.disk.Closed, ObservePanic: f.meter.Panicked,
		ObserveCommit: f.meter.ObserveCommit, ObserveNote: observeNote(f.meter, in.watcher, happened, in.starts),
	})
	if err != nil {
		return database.UnusableError{Err: fmt.Errorf("database %s: %w", f.database(), database.WithRemedy(err, f.opts.Data))}
	}
	in.starts.of(in.node)
	in.undo = append(in.undo, in.node.Wait)
	if cloned, err := in.node.Cloned(context.Background()); err != nil {
		return err
	} else if cloned {
		return in.beginAnew()
	}
	id, err := in.node.Identity(context.Background())
	if err == nil {
		in.decided.Of(context.Background(), in.node, id.Boot == 1, f.lists || damaged)
	}
	return err
}

// beginAnew has the database of an image, in which there is nothing, make way for a new one: all machines that were made from the
// image would be one peer otherwise.
func (in *instance) beginAnew() error {
	in.release()
	in.store, in.node = nil, nil
	for _, file := range []string{in.front.database(), filepath.Join(in.front.opts.Data, decisions.FileName)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	in.front.logger.Warn("database of another machine removed, because it was empty", slog.String("path", in.front.database()),
		slog.String("next", "none is needed: this host begins as a new peer"))
	return errOpenAgain
}

// complete adds to the core's settings what follows from the host and its database. lost says that this host had another
// database before, of which others may know.
func (f *front) complete(machine *ipam.Config, store *persist.Store, lost bool) {
	machine.AwaitInventory, machine.NoMAC = f.lists, f.noMAC()
	if len(f.cfg.Keys) > 0 || f.cfg.Insecure {
		// A peer whose database was lost may have had a cluster, and must not
		// found another beside it. The others remember where it was, and come.
		machine.Join = machine.Join || lost && f.cfg.Bootstrap.N != 1
		machine.Hesitate = f.inPlugin && f.lists
	}
	machine.Place = identity.Place(store.Path())
}

// closeStore closes the database, and has another one take its place where this host starts over.
func (in *instance) closeStore() {
	if in.startOver != nil {
		in.front.succeed(in.startOver, in.store)
		return
	}
	if err := in.store.Close(); err != nil {
		in.front.logger.Warn("database not closed well", logattr.Err(err))
	}
}

// connect brings the node together with the host, its engine and the other peers.
func (in *instance) connect(ctx context.Context, id ipam.Identity, happened *events.Feed) (err error) {
	f := in.front
	in.shared, err = directory.New(directory.Config{
		Self: id, Cluster: f.cfg.Cluster, Source: in.node, Log: happened.Log(), Logger: f.logger,
		About:      func() directory.Node { return about(f.cfg, in.watcher, func() *peers { return in.network }) },
		Networks:   func(pool netip.Prefix) []string { return in.view.names.Of(pool) }, // the view is there before the directory runs
		Containers: containersOf(in.watcher), Identities: in.node, Locks: in.node.Locks, Past: in.past, Pace: f.pace, ObservePanic: f.meter.Panicked,
	})
	if err != nil {
		return err
	}
	if in.silent, err = in.node.Moved(ctx); err != nil {
		return err
	}
	if _, closed := f.alone.Problem(); in.silent {
		in.parts = append(in.parts, in.untilTrusted)
	} else if closed {
		in.parts = append(in.parts, f.aloneFor)
	} else if in.network, err = newPeers(ctx, f.cfg, in.node, in.shared, happened, f.pace, f.edge("network"), f.logger); err != nil {
		return err
	}
	in.host = hostnet.New(hostnet.Config{Node: in.node, Pace: f.pace, Logger: f.logger})
	in.undo = append(in.undo, in.host.Hear())
	if err := in.host.Tell(ctx); err != nil {
		return err
	}
	in.watcher.WhenBlind(in.node.Blind)
	return nil
}

// show makes what the engine, operators and Prometheus see of the instance.
func (in *instance) show(ctx context.Context, happened *events.Feed) error {
	f := in.front
	probes := newProber(in.node, f.meter, f.logger)
	unconfined, err := probes.confine(ctx, f.opts, announces(f.cfg))
	if err != nil {
		return err
	}
	f.gaveUp = f.gaveUp || probes.gaveUp // an earlier instance may have
	probes.gaveUp = f.gaveUp
	lost, err := database.FindAside(f.database())
	if err != nil {
		return err
	}
	macs := &networks.NoMAC{MAC: !f.noMAC(), InPlugin: f.inPlugin}
	lanRouters := networks.NewRouters(kernelnet.Addresses)
	unused := networks.NewRefused(in.node, in.watcher.State, f.logger)
	in.calls = engineCalls{in.node, in.watcher, probes, in.host, in.starts, in.decided, unused}
	in.record, err = newJournal(filepath.Join(f.opts.Data, journalName), f.cfg.Name, happened.Log(), in.node, f.edge("journal"), f.logger)
	if err != nil {
		return err
	}
	former, err := database.FindFormer(f.database())
	if err != nil {
		return err
	}
	again := claims.New(in.node, f.logger)
	outside, unmirrored, err := newMirror(f.cfg, in.self, in.shared, f.logger)
	if err != nil {
		return err
	}
	kept, err := locks.New(in.node, in.self.ID, f.logger)
	if err != nil {
		return err
	}
	in.view = &status{
		Node: in.node, decided: in.decided, watcher: in.watcher, locked: macs, routers: lanRouters, lost: lost, former: former, rejoin: in.rejoin, trust: in.trust, silent: in.silent, network: in.network, alone: f.alone, probes: probes, starts: in.starts,
		sight:  sight{inPlugin: f.inPlugin, named: named(f.opts, f.inPlugin)},
		faults: slices.Concat(f.disk.Faults(), []*fault.Fault{f.alone}, in.host.Faults(), []*fault.Fault{in.record.fault, again.Fault, in.decided.Fault, unconfined, openKeys(f.cfg, f.logger), unmirrored, lateDirectory(in.shared, f.logger)}, unidentified(in.shared, f.logger), f.faults),
	}
	in.view.others.list = func() []directory.Item {
		list, _ := in.shared.List(directory.NodeKeys(in.shared.Cluster()), "", 1000, 1<<20)
		return list
	}
	in.servers, err = f.apis(admin.Config{
		Backend: in.view, Networks: in.view.names.Pools, Process: f.process(in.watcher, in.network), Events: happened.Log(), Journal: in.record, Directory: in.shared, Locks: kept,
	})
	if err != nil {
		return err
	}
	in.parts = append(in.parts,
		in.serveNode,
		in.host.Watch,
		in.host.Listen,
		func(ctx context.Context) error {
			return in.watcher.Run(ctx, deliver(in.watcher, in.node, in.host, macs, lanRouters, in.starts, &in.view.names, in.decided, unused))
		},
		func(ctx context.Context) error { return happened.Watch(ctx, in.view.Snapshot) },
		in.record.Run,
		func(ctx context.Context) error { return in.decided.Run(ctx, f.pace.Round) },
		again.Run,
		unused.Run,
		in.shared.Run,
		kept.Run,
		in.starts.run,
		f.garbage.run,
		f.disk.Run,
	)
	if in.network != nil {
		in.parts = append(in.parts, func(ctx context.Context) error { return in.network.run(ctx, in.node) })
	}
	if outside != nil {
		f.meter.WatchETCD(outside.Up)
		in.parts = append(in.parts, outside.Run)
	}
	return nil
}

// past tells another peer who had an address at a time. The journal is there before the directory runs.
func (in *instance) past(ctx context.Context, a netip.Addr, at time.Time) ([]byte, error) {
	p, err := in.record.Who(ctx, a, at)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// serveNode runs the node. When that has failed, requests wait for the next one.
func (in *instance) serveNode(ctx context.Context) error {
	err := in.node.Run(ctx)
	if err != nil {
		in.conceal()
		if !startsOver(err) {
			in.front.waiting.begin(err)
		}
	}
	return err
}

// run has the engine and operators served, until ctx ends or a part fails.
func (in *instance) run(ctx context.Context) error {
	f := in.front
	f.waiting.end()
	f.disk.Look() // what was given up may be made again at once
	f.meter.Watch(in.view.Snapshot)
	f.meter.WatchDirectory(in.shared.Stats)
	if in.network != nil {
		f.meter.WatchGossip(in.network.Status, in.node.Refused)
	}
	f.show(in.servers)
	f.watcher.Store(in.watcher)
	f.gate.Open(in.calls)
	forgetReason(f.opts, f.logger)
	err := together(ctx, in.parts)
	if ctx.Err() != nil {
		<-f.quiet // requests that are being answered need the database
	}
	in.conceal()
	return err
}

// conceal has requests wait from now on.
func (in *instance) conceal() { in.hide.Do(in.front.gate.Shut) }

// close ends what is left, the database last.
func (in *instance) close() { in.release() }

// release undoes what was done, the last first.
func (in *instance) release() {
	for len(in.undo) > 0 {
		last := len(in.undo) - 1
		in.undo[last]()
		in.undo = in.undo[:last]
	}
}
