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
	"github.com/ringlet/ringlet/internal/together"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/announcer"
	"github.com/ringlet/ringlet/plugin/calls"
	"github.com/ringlet/ringlet/plugin/claims"
	"github.com/ringlet/ringlet/plugin/coreconfig"
	"github.com/ringlet/ringlet/plugin/database"
	"github.com/ringlet/ringlet/plugin/decided"
	"github.com/ringlet/ringlet/plugin/decisions"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/entry"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/health"
	"github.com/ringlet/ringlet/plugin/history"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/identity"
	"github.com/ringlet/ringlet/plugin/inventory"
	"github.com/ringlet/ringlet/plugin/keyring"
	"github.com/ringlet/ringlet/plugin/locks"
	"github.com/ringlet/ringlet/plugin/metrics"
	"github.com/ringlet/ringlet/plugin/networks"
	"github.com/ringlet/ringlet/plugin/peers"
	"github.com/ringlet/ringlet/plugin/prober"
	"github.com/ringlet/ringlet/plugin/startover"
	"github.com/ringlet/ringlet/plugin/status"
)

// instance is a node on its open database, with all that belongs to it. It ends
// as a whole, and another one is built in its place. Use [front.build].
type instance struct {
	front   *front
	store   *persist.Store
	node    *node.Node
	watcher *dockerd.Watcher
	decided *decided.Keeper
	network *peers.Peers // nil: there is none
	silent  bool         // the database may be a copy: no other host is to hear from this one
	host    *hostnet.Reporter
	probes  *prober.Prober
	names   networks.Names
	starts  *announcer.Announcer // nil: containers are not announced
	calls   calls.Calls
	view    *status.Status
	record  *history.History
	shared  *directory.Directory
	health  *health.Monitor // nil: this host has no health address
	self    ipam.Identity
	servers servers

	parts []func(context.Context) error
	undo  []func() // in reverse order

	hide, once sync.Once
	trusted    chan struct{}    // closed when an operator trusts a database that was moved
	startOver  *startover.Error // an operator has this host start over; nil: nobody has. Set when it ends
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
	f.garbage.Hold()
	if in.watcher, err = newWatcher(f.opts, f.cfg.IdentityLabels, f.plugin, f.logger); err != nil {
		return nil, err
	}
	core := coreconfig.Of(f.cfg)
	feed := events.NewFeed(f.pace, f.crashes.Edge("events"))
	if err := in.open(core, feed); err != nil {
		return nil, err
	}
	id, err := in.node.Identity(ctx)
	if err != nil {
		return nil, err
	}
	in.self = id
	feed.Begin(id)
	f.events.Store(feed.Log())
	if err := in.connect(ctx, id, feed); err != nil {
		return nil, err
	}
	if err := in.show(ctx, feed); err != nil {
		return nil, err
	}
	return in, nil
}

// open opens the database and makes its node.
func (in *instance) open(core ipam.Config, feed *events.Feed) error {
	f := in.front
	preview := node.NewPreview(core)
	store, damaged, err := database.Open(f.database(), f.lists, preview, f.disk.Ballast, f.logger)
	if err != nil {
		return err
	}
	in.store = store
	in.undo = append(in.undo, in.closeStore)
	f.crashes.Catch()
	if in.decided, err = decided.Open(f.opts.Data, f.cfg.Name, version, f.logger); err != nil {
		return err
	}
	f.complete(&core, store, damaged || in.decided.Shared())
	core.Decided = in.decided.Known()
	in.starts = announcer.New(f.cfg.Announce, f.opts.Data, in.watcher, f.meter, f.logger)
	in.node, err = node.New(node.Config{
		Machine: core, Store: store, Preview: preview, Logger: f.logger, Timeout: f.cfg.Timeout, Closed: f.disk.Closed,
		ObservePanic:  f.meter.Panicked,
		ObserveCommit: f.meter.ObserveCommit, ObserveNote: observeNote(f.meter, in.watcher, feed, in.starts, in.decided),
	})
	if err != nil {
		return database.UnusableError{Err: fmt.Errorf("database %s: %w", f.database(), database.WithRemedy(err, f.opts.Data))}
	}
	in.starts.Of(in.node)
	in.undo = append(in.undo, in.node.Stop)
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
func (f *front) complete(core *ipam.Config, store *persist.Store, lost bool) {
	core.AwaitInventory, core.NoMAC = f.lists, f.noMAC()
	if len(f.cfg.Keys) > 0 || f.cfg.Insecure {
		// A peer whose database was lost may have had a cluster, and must not
		// found another beside it. The others remember where it was, and come.
		core.Join = core.Join || lost && f.cfg.Bootstrap.N != 1
		core.Hesitate = f.inPlugin && f.lists
	}
	core.Place = identity.Place(store.Path())
}

// closeStore closes the database, and has another one take its place where this host starts over.
func (in *instance) closeStore() {
	if in.startOver != nil {
		in.front.successor = in.startOver
		in.startOver.Succeed(in.store, in.front.firstCommit, in.front.logger)
		return
	}
	if err := in.store.Close(); err != nil {
		in.front.logger.Warn("database not closed well", logattr.Err(err))
	}
}

// connect brings the node together with the host, its engine and the other peers.
func (in *instance) connect(ctx context.Context, id ipam.Identity, feed *events.Feed) (err error) {
	f := in.front
	in.shared, err = directory.New(directory.Config{
		Self: id, Cluster: f.cfg.Cluster, Source: in.node, Log: feed.Log(), Logger: f.logger,
		About:      in.about,
		Networks:   in.names.Of,
		Containers: entry.Containers(in.watcher), SwarmServices: entry.SwarmServices(in.watcher), Identities: in.node,
		Locks: in.node.Locks, Past: in.past, Pace: f.pace, ObservePanic: f.meter.Panicked,
	})
	if err != nil {
		return err
	}
	if in.silent, err = in.node.Moved(ctx); err != nil {
		return err
	}
	if _, closed := f.crashes.Alone.Problem(); in.silent {
		in.parts = append(in.parts, in.untilTrusted)
	} else if closed {
		in.parts = append(in.parts, in.untilReopened)
	} else if in.network, err = peers.New(ctx, peers.Config{
		Settings: f.cfg, Node: in.node, Directory: in.shared, Events: feed, Pace: f.pace, Edge: f.crashes.Edge("network"), Logger: f.logger,
	}); err != nil {
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

// about is what the directory says of this host.
func (in *instance) about() directory.Node {
	var self netip.AddrPort
	if in.network != nil {
		self = in.network.Status().Self
	}
	cfg := in.front.cfg
	return entry.Of(entry.Process{
		Version: version, Engine: in.watcher.State().EngineVersion, HTTP: cfg.HTTP.Address, Health: cfg.Health, Self: self,
	})
}

// watchHealth makes what answers at the health address of this host, and asks other hosts at theirs.
func (in *instance) watchHealth() (faults []*fault.Fault) {
	f := in.front
	if in.network == nil || !f.cfg.Health.IsValid() {
		return nil
	}
	in.health = health.New(health.Config{
		Self: in.self.ID.String(), At: f.cfg.Health, Logger: f.logger,
		Hosts: func() map[string]netip.AddrPort { return entry.HealthAddresses(in.nodes(), in.network.Living()) },
	})
	in.parts = append(in.parts, in.health.Run)
	return []*fault.Fault{in.health.Fault()}
}

// nodes returns what each peer says of itself.
func (in *instance) nodes() []directory.Item {
	list, _ := in.shared.List(directory.NodeKeys(in.shared.Cluster()), "", 1000, 1<<20)
	return list
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

// untilReopened ends an instance without a network after some time.
func (in *instance) untilReopened(ctx context.Context) error {
	if in.front.crashes.Reopen(ctx) {
		return errOpenAgain
	}
	return nil
}

// show makes what the engine, operators and Prometheus see of the instance.
func (in *instance) show(ctx context.Context, feed *events.Feed) error {
	f := in.front
	faults, unconfined, err := in.guard(ctx, feed)
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
	unused := networks.NewRefused(in.node, in.watcher.State, f.logger)
	in.calls = calls.Calls{
		Node: in.node, Watcher: in.watcher, Prober: in.probes, Host: in.host, Starts: in.starts, Decided: in.decided, Vain: unused,
	}
	readers := &inventory.Readers{
		Node: in.node, Host: in.host, Names: &in.names, Vain: unused, Decided: in.decided, Starts: in.starts.Listed,
		NoMAC:   &networks.NoMAC{MAC: !f.noMAC(), InPlugin: f.inPlugin},
		Routers: networks.NewRouters(kernelnet.Addresses),
	}
	faults = slices.Concat(faults, in.watchHealth(), []*fault.Fault{
		again.Fault, in.decided.Fault, unconfined, keyring.New(f.cfg).Open(f.logger), unmirrored, entry.Late(in.shared, f.logger),
	}, entry.Unidentified(in.shared, f.logger), f.faults)
	if err := in.look(readers, faults); err != nil {
		return err
	}
	in.servers, err = f.apis(admin.Config{
		Backend: in.view, Networks: in.names.Pools, Process: f.process(in.watcher, in.network), Events: feed.Log(),
		Journal: in.record, Directory: in.shared, Locks: kept,
	})
	if err != nil {
		return err
	}
	in.parts = append(in.parts,
		in.serveNode,
		in.host.Watch,
		in.host.Listen,
		func(ctx context.Context) error { return in.watcher.Run(ctx, readers.Deliver(in.watcher)) },
		func(ctx context.Context) error { return feed.Watch(ctx, in.view.Snapshot) },
		in.record.Run,
		func(ctx context.Context) error { return in.decided.Run(ctx, f.pace.Round) },
		again.Run,
		unused.Run,
		in.shared.Run,
		kept.Run,
		in.starts.Run,
		f.garbage.Run,
		f.disk.Run,
	)
	if in.network != nil {
		in.parts = append(in.parts, func(ctx context.Context) error { return in.network.Run(ctx, in.node) })
	}
	if outside != nil {
		f.meter.WatchETCD(outside.Up)
		in.parts = append(in.parts, outside.Run)
	}
	return nil
}

// guard makes the prober and the journal. It returns what may be wrong with the disk, the host and the journal, and with the rights of
// this process.
func (in *instance) guard(ctx context.Context, feed *events.Feed) (faults []*fault.Fault, unconfined *fault.Fault, err error) {
	f := in.front
	in.probes = prober.New(prober.Config{Node: in.node, Count: f.meter.Probed, Logger: f.logger})
	unconfined, err = in.probes.Confine(ctx, f.opts.Drop, f.cfg.Announce)
	if err != nil {
		return nil, nil, err
	}
	if f.gaveUp {
		in.probes.GiveUp()
	}
	f.gaveUp = in.probes.GaveUp()
	in.record, err = history.New(history.Config{
		Dir: filepath.Join(f.opts.Data, journalName), Self: f.cfg.Name, Events: feed.Log(), Node: in.node,
		Edge: f.crashes.Edge("journal"), Logger: f.logger,
	})
	if err != nil {
		return nil, nil, err
	}
	return slices.Concat(f.disk.Faults(), []*fault.Fault{f.crashes.Alone}, in.host.Faults(), []*fault.Fault{in.record.Fault}), unconfined, nil
}

// look makes the status.
func (in *instance) look(readers *inventory.Readers, faults []*fault.Fault) error {
	f := in.front
	lost, err := database.FindAside(f.database())
	if err != nil {
		return err
	}
	former, err := database.FindFormer(f.database())
	if err != nil {
		return err
	}
	in.view = status.New(status.Config{
		Node: in.node, Decided: in.decided, Watcher: in.watcher, NoMAC: readers.NoMAC, Routers: readers.Routers,
		Names: readers.Names, Lost: lost, Former: former,
		Engine: status.EngineAccess{InPlugin: f.inPlugin, Named: named(f.opts, f.inPlugin)},
		Rejoin: func(ctx context.Context, dryRun bool) (admin.Rejoining, error) {
			return startover.Rejoin(ctx, in.node, dryRun)
		},
		Silent: in.silent, Trusted: func() { in.once.Do(func() { close(in.trusted) }) },
		Alone: f.crashes.Alone, Network: in.network, Probes: in.probes, Starts: in.starts, Faults: faults,
		Health: in.health, List: in.nodes,
	})
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
		if startover.Of(err) == nil {
			in.front.waiting.Begin(err)
		}
	}
	return err
}

// run has the engine and operators served, until ctx ends or a part fails.
func (in *instance) run(ctx context.Context) error {
	f := in.front
	f.waiting.End()
	f.disk.Look() // what was given up may be made again at once
	f.meter.Watch(in.view.Snapshot)
	f.meter.WatchDirectory(in.shared.Stats)
	if in.network != nil {
		f.meter.WatchGossip(in.network.Status, in.node.Refused)
	}
	forgetReason(f.opts, f.logger) // before anybody is answered: who is must not find it
	f.watcher.Store(in.watcher)
	f.gate.Open(in.calls)
	f.show(in.servers) // who reads that it serves is served
	err := together.Run(ctx, in.parts...)
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

// observeNote makes events of the notes, counts those that have a metric, and looks at what the engine
// has where a note asks for it.
func observeNote(m *metrics.Metrics, watcher *dockerd.Watcher, feed *events.Feed, starts *announcer.Announcer,
	kept *decided.Keeper,
) func(ipam.Note) {
	return func(n ipam.Note) {
		feed.Note(n)
		starts.Note(&n)
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
		case ipam.NoteFounded:
			kept.Founded()
		default: // the log has them
		}
	}
}
