package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/collector"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/internal/together"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/about"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/certfile"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/coreconfig"
	"github.com/ringlet/ringlet/plugin/crashes"
	"github.com/ringlet/ringlet/plugin/database"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/gate"
	"github.com/ringlet/ringlet/plugin/logging"
	"github.com/ringlet/ringlet/plugin/metrics"
	"github.com/ringlet/ringlet/plugin/page"
	"github.com/ringlet/ringlet/plugin/peers"
	"github.com/ringlet/ringlet/plugin/serving"
	"github.com/ringlet/ringlet/plugin/standby"
	"github.com/ringlet/ringlet/plugin/startover"
)

// front is what lives as long as the process: the sockets, and what answers on
// them while there is no database. The node with all that belongs to it is an
// [instance], which ends when a commit has failed, and is built again from disk.
type front struct {
	opts    cli.ServeOptions
	cfg     config.Config
	logger  *slog.Logger
	sink    *logging.Sink
	started time.Time

	plugin   string // ID of the managed plugin that this process runs in
	inPlugin bool
	lists    bool // there is an engine that lists what it has

	socket, adminSocket net.Listener

	garbage *collector.Collector
	meter   *metrics.Metrics
	pace    *pace.Pace
	gate    *gate.Gate
	local   *serving.Stage // the API on the admin socket
	http    *serving.Stage // the API on RINGLET_HTTP
	pair    *certfile.Pair // of RINGLET_HTTP; nil: it does not speak TLS
	faults  []*fault.Fault
	waiting *standby.Standby
	gaveUp  bool // CAP_NET_RAW, for good
	disk    *database.Disk
	crashes *crashes.Crashes
	quiet   chan struct{} // closed when nothing is served on the sockets any more

	successor *startover.Error           // what was started over last, until there is an instance again; nil: nothing
	events    atomic.Pointer[events.Log] // of the latest instance; nil: there was none
	watcher   atomic.Pointer[dockerd.Watcher]
}

// firstToKeep is the first engine that keeps the subnet it was granted for any of a size.
const firstToKeep = 29

// keepsChosen reports whether the engine is known to be one of those.
func (f *front) keepsChosen() bool {
	w := f.watcher.Load()
	if w == nil {
		return false
	}
	st := w.State()
	n, known := st.Major()
	return known && st.Connected && n >= firstToKeep
}

// serve opens the sockets and serves until ctx ends or something fails that does
// not pass.
func serve(ctx context.Context, opts cli.ServeOptions, cfg config.Config, logger *slog.Logger, sink *logging.Sink) error {
	f := &front{opts: opts, cfg: cfg, logger: logger, sink: sink, started: time.Now()}
	for pause := (backoff.Backoff{First: serving.FirstRetry, Last: serving.LastRetry}); ; {
		err := f.open()
		if err == nil {
			break
		}
		if !database.Passes(err) {
			return err
		}
		logger.Warn("the sockets cannot be opened yet", logattr.Err(err))
		if !backoff.Sleep(ctx, pause.Next(), nil) {
			return context.Cause(ctx)
		}
	}
	defer f.close()
	return f.run(ctx)
}

// open looks at what the process is to serve, and opens its sockets.
func (f *front) open() (err error) {
	if f.plugin, f.inPlugin, err = pluginID(); err != nil {
		return err
	}
	opts := f.opts
	if !f.inPlugin && opts.Data == cli.DefaultData {
		return errors.New("this is not inside a managed plugin: name the directory of the database with --data, see ringlet serve --help")
	}
	if info, err := os.Stat(opts.Data); err == nil && !info.IsDir() {
		return fmt.Errorf("--data %s is a file: name the directory of the database, see ringlet serve --help", opts.Data)
	}
	if filepath.Clean(opts.Socket) == filepath.Clean(opts.AdminSocket) {
		return fmt.Errorf("--socket and --admin-socket are both %s: give each a path of its own, see ringlet serve --help", opts.Socket)
	}
	f.lists = listed(opts, f.inPlugin)
	if err := checkMAC(f.cfg, opts, f.inPlugin, f.lists); err != nil {
		return err
	}
	if _, err := newWatcher(opts, nil, f.plugin, f.logger); err != nil {
		return err
	}
	if f.socket, err = driver.Listen(opts.Socket); err != nil {
		return err
	}
	if f.adminSocket, err = driver.Listen(opts.AdminSocket); err != nil {
		_ = f.socket.Close() // the error that counts is err
		return err
	}
	return nil
}

// close closes the sockets.
func (f *front) close() {
	_ = f.adminSocket.Close() // nothing can be done about it
	_ = f.socket.Close()
}

// noMAC reports whether the engine is to give endpoints no MAC.
func (f *front) noMAC() bool { return !f.cfg.MAC && f.lists }

// database returns the path of the database.
func (f *front) database() string { return filepath.Join(f.opts.Data, databaseName) }

// run serves on the sockets, which are open.
func (f *front) run(ctx context.Context) error {
	f.garbage = collector.New()
	f.meter = metrics.New(metrics.Config{Version: version, Logger: f.logger})
	f.pace = pace.New()
	f.crashes = crashes.New(crashes.Config{Dir: f.opts.Data, Version: version, Count: f.meter.Panicked, Logger: f.logger})
	f.disk = database.NewDisk(f.cfg.Name, f.database(), cli.LeastDisk, f.pace, f.logger)
	f.meter.WatchDisk(f.disk.Free)
	f.local, f.http = serving.NewStage(), serving.NewStage()
	f.waiting = f.newStandby()
	f.gate = gate.New(f.cfg.Name, f.cfg.Timeout, f.waiting.EngineAnswers)
	drv, err := driver.New(driver.Config{
		Backend: f.gate, Logger: f.logger, Timeout: f.cfg.Timeout, NoMAC: f.noMAC(),
		KeepsChosen: f.keepsChosen, Observe: f.meter.ObserveRequest,
	})
	if err != nil {
		return err
	}
	services := []serving.Part{serving.NewAdmin(f.adminSocket, f.opts.AdminSocket, f.local.Serve, f.logger).Part()}
	if f.cfg.HTTP.Address != config.HTTPOff {
		services = append(services, serving.NewHTTP(f.cfg.HTTP.Address, f.http.Serve, f.logger).Part())
		if f.cfg.HTTP.Cert != "" {
			f.pair = certfile.New(f.cfg.HTTP.Cert, f.cfg.HTTP.Key)
			services = append(services, serving.NewCertificate(f.cfg.HTTP.Address, f.pair, f.logger))
		}
	}
	// The process ends when the engine's socket cannot be accepted on any more: the
	// engine then starts the plugin again, with a socket that it can connect to.
	serving := []func(context.Context) error{func(ctx context.Context) error { return drv.Serve(ctx, f.socket) }}
	for _, s := range services {
		serving = append(serving, s.Run)
		f.faults = append(f.faults, s.Fault)
	}
	f.quiet = make(chan struct{})
	return together.Run(ctx,
		func(ctx context.Context) error {
			defer close(f.quiet)
			return together.Run(ctx, serving...)
		},
		f.keep,
	)
}

// wellAfter is how long an instance has served until what made it end counts as
// a new disturbance.
const wellAfter = time.Minute

// keep has an instance serve, builds it again when it has failed, and waits where
// it cannot be built for a reason that passes. It returns nil when ctx ends, and
// else the reason that does not pass.
func (f *front) keep(ctx context.Context) error {
	defer f.waiting.End()
	defer f.settle()
	defer f.crashes.Close()
	started := false                                                                                    // whether it has served, or waits
	for pause := time.Duration(0); ; pause = min(max(2*pause, serving.FirstRetry), serving.LastRetry) { // the first time at once
		begun := time.Now()
		built, err := f.attempt(ctx)
		started = started || built
		switch {
		case ctx.Err() != nil && !started:
			return cmp.Or(err, ctx.Err())
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			return nil
		case errors.Is(err, errOpenAgain), startover.Of(err) != nil: // at once
			continue
		case err == nil || !database.Passes(err):
			return err
		}
		f.crashes.Panicked(err)
		f.waiting.Begin(err)
		if built {
			f.logger.Warn("the database is opened again", logattr.Err(err))
			if time.Since(begun) > wellAfter {
				pause = 0
			}
		} else {
			started = true
			keepReason(f.opts, err, f.logger) // in case that it is told to end meanwhile
		}
		if !backoff.Sleep(ctx, pause, nil) {
			return nil
		}
	}
}

// attempt builds an instance and has it serve until it fails or ctx ends. It
// reports whether it was built.
func (f *front) attempt(ctx context.Context) (built bool, err error) {
	in, err := f.build(ctx)
	f.settle()
	if err != nil {
		f.garbage.Release()
		return false, err
	}
	defer in.close()
	err = in.run(ctx)
	in.startOver = startover.Of(err)
	return true, err
}

// servers are what the two services serve.
type servers struct{ local, http serving.Func }

// apis returns the API on the admin socket, and that on RINGLET_HTTP if it is set.
func (f *front) apis(common admin.Config) (s servers, err error) {
	common.Logger, common.Metrics, common.Timeout, common.Observe = f.logger, f.meter.Handler(), f.cfg.Timeout, f.meter.ObserveRequest
	common.DefaultPool = f.cfg.DefaultPool
	common.Page, common.PagePaths = page.Handler(), page.Paths()
	if common.Events != nil {
		// The latest instance writes its journal still, also where another one has answered.
		common.Written = func(w admin.Write) { f.events.Load().Ask(time.Now(), w.String()) }
	}
	local, err := admin.New(common)
	if err != nil {
		return servers{}, err
	}
	common.Remote, common.Token, common.Context, common.Hosts = true, f.cfg.HTTP.Token, node.AsGuest, namesOf(f.cfg)
	if f.pair != nil {
		common.TLS = f.pair.Config()
	}
	open, err := admin.New(common)
	if err != nil {
		return servers{}, err
	}
	return servers{local.Serve, open.Serve}, nil
}

// show has the services serve something else from now on.
func (f *front) show(s servers) {
	f.local.Set(s.local)
	f.http.Set(s.http)
}

// process returns what the API tells of the process.
func (f *front) process(watcher *dockerd.Watcher, network *peers.Peers) *about.Process {
	cfg := about.Config{Version: version, Settings: f.cfg, Started: f.started, Database: f.database(), Watcher: watcher, Sink: f.sink}
	if network != nil {
		cfg.Network = network.Gossip
	}
	return about.New(cfg)
}

// namesOf returns the names by which RINGLET_HTTP may be asked: this host's, in full and up
// to the first dot, and those of the settings.
func namesOf(cfg config.Config) []string {
	names := append([]string{cfg.Name}, cfg.HTTP.Hosts...)
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		names = append(names, name, short)
	}
	return names
}

// newStandby returns what stands in for the node while there is none.
func (f *front) newStandby() *standby.Standby {
	return standby.New(standby.Config{
		Host: f.cfg.Name, Logger: f.logger, Explain: func(why error) { f.gate.Explain(why) }, Faults: func() []*fault.Fault { return f.faults },
		Watcher: func() (*dockerd.Watcher, error) {
			return newWatcher(f.opts, nil, f.plugin, slog.New(slog.DiscardHandler))
		},
		Show: func(b admin.Backend, w *dockerd.Watcher) error {
			f.meter.Unwatch(b.Snapshot)
			servers, err := f.apis(admin.Config{Backend: b, Process: f.process(w, nil)})
			if err != nil {
				return err
			}
			f.show(servers)
			return nil
		},
	})
}

// firstCommit makes the first commit of a new peer.
func (f *front) firstCommit(store *persist.Store, remains *ipam.Remains) error {
	core := coreconfig.Of(f.cfg)
	f.complete(&core, store, false)
	core.Remains = remains
	n, err := node.New(node.Config{Machine: core, Store: store, Logger: f.logger, Timeout: f.cfg.Timeout})
	if err != nil {
		return err
	}
	n.Stop()
	return nil
}

// settle tells who has had this host start over how that went.
func (f *front) settle() {
	if f.successor != nil {
		f.successor.Settle()
		f.successor = nil
	}
}

// errOpenAgain ends an instance that has no network, so that the next one has.
var errOpenAgain = errors.New("the network between hosts is opened again")
