package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	crand "crypto/rand"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/certfile"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/lastwords"
	"github.com/ringlet/ringlet/plugin/logging"
	"github.com/ringlet/ringlet/plugin/metrics"
	"github.com/ringlet/ringlet/plugin/page"
)

// errSettings is returned when the settings are wrong; each of them has been
// logged.
var errSettings = errors.New("the settings are wrong, see above")

// run is the plugin's process: it serves until ctx ends or something fails
// that only a new start can mend.
//
// The sockets are opened first, so that the engine finds them within its few
// seconds whatever the disk has to say; what it asks meanwhile waits.
func run(ctx context.Context, opts cli.ServeOptions) error {
	// Else Go ends the process at the first line of its log that nobody is there to
	// read any more. That write fails, and the line is lost, as others may be.
	signal.Ignore(syscall.SIGPIPE)
	opts = confine(opts) // before anything is read, so that what a later start could not read is refused now
	cfg, err := config.Load(os.Environ(), os.Hostname)
	logger, sink := logging.New(logging.Config{
		Level: cfg.LogLevel, Format: logging.Format(cfg.LogFormat), Out: os.Stdout, Err: os.Stderr,
	})
	// The log is flushed last of all.
	flushed := make(chan struct{})
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(flushed)
		_ = sink.Run(logCtx) // what could not be written cannot be said either
	}()
	defer func() { stopLog(); <-flushed }()

	defer adopt(logger)()

	if err != nil {
		for _, problem := range config.Problems(err) {
			logger.Error("setting refused", logattr.Err(problem))
		}
		keepReason(opts, err, logger)
		return errSettings
	}
	logger.Info("ringlet started", slog.String("version", version), logattr.Name(cfg.Name), slog.Any("settings", cfg))
	err = serve(ctx, opts, cfg, logger, sink)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled): // before it served; later that is no error of any part
		forgetReason(opts, logger) // which was another process's
	case err != nil:
		logger.Error("ringlet stopped", logattr.Err(err))
		keepReason(opts, err, logger)
		return err
	}
	logger.Info("ringlet stopped")
	return nil
}

// adopt has what libraries write to the log package, as net/http does of the engine's socket, come as lines of
// logger, until the function that it returns is called.
func adopt(logger *slog.Logger) (giveBack func()) {
	out, flags := log.Writer(), log.Flags()
	log.SetFlags(0) // the time is logger's
	log.SetOutput(logging.Lines(logger, func(string) slog.Level { return slog.LevelWarn }))
	return func() {
		log.SetOutput(out)
		log.SetFlags(flags)
	}
}

// keepReason keeps why this process ends for who looks at it from outside. Beside a database that
// another one serves from, it would be taken for the last word of that.
func keepReason(opts cli.ServeOptions, why error, logger *slog.Logger) {
	if persist.InUse(filepath.Join(opts.Data, databaseName)) {
		return
	}
	if err := lastwords.Write(opts.Data, time.Now(), why); err != nil {
		logger.Debug("no last words", logattr.Err(err)) // the log has them
	}
}

// forgetReason takes back why an earlier process ended.
func forgetReason(opts cli.ServeOptions, logger *slog.Logger) {
	if err := lastwords.Forget(opts.Data); err != nil {
		logger.Warn("last words stay", logattr.Err(err))
	}
}

// serve opens the sockets, then the database, and runs all parts until one
// fails or ctx ends.
func serve(ctx context.Context, opts cli.ServeOptions, cfg config.Config, logger *slog.Logger, sink *logging.Sink) error {
	started := time.Now()
	watcher, inPlugin, err := newWatcher(opts, logger)
	if err != nil {
		return err
	}
	if !inPlugin && opts.Data == cli.DefaultData {
		return errors.New("this is not inside a managed plugin: name the directory of the database with --data, see ringlet serve --help")
	}
	if info, err := os.Stat(opts.Data); err == nil && !info.IsDir() {
		return fmt.Errorf("--data %s is a file: name the directory of the database, see ringlet serve --help", opts.Data)
	}
	if filepath.Clean(opts.Socket) == filepath.Clean(opts.AdminSocket) {
		return fmt.Errorf("--socket and --admin-socket are both %s: give each a path of its own, see ringlet serve --help", opts.Socket)
	}
	lists := listed(opts, inPlugin)
	if err := checkMAC(cfg, opts, inPlugin, lists); err != nil {
		return err
	}
	socket, err := driver.Listen(opts.Socket)
	if err != nil {
		return err
	}
	defer socket.Close()
	adminSocket, err := driver.Listen(opts.AdminSocket)
	if err != nil {
		return err
	}
	defer adminSocket.Close()

	garbage := &collector{set: debug.SetGCPercent, free: debug.FreeOSMemory}
	garbage.hold()
	machine := machineConfig(cfg)
	preview := node.NewPreview(machine)
	store, damaged, err := openStore(opts, lists, preview, logger)
	if err != nil {
		return err
	}
	defer store.Close()

	machine.AwaitInventory, machine.NoMAC = lists, !cfg.MAC && lists
	if len(cfg.Keys) > 0 || cfg.Insecure {
		// A peer whose database was lost may have had a cluster, and must not
		// found another beside it. The others remember where it was, and come.
		machine.Join = machine.Join || damaged && cfg.Bootstrap.N != 1
		machine.Hesitate = inPlugin && lists
	}
	machine.Place = place(filepath.Join(opts.Data, databaseName))
	meter := metrics.New(metrics.Config{Version: version, Logger: logger})
	idle := thrift{threads: newProcessors(), pace: pace.New()}
	happened := newStream()
	happened.pace = idle.pace
	starts := newAnnouncer(cfg.Announce, opts.Data, watcher, meter, logger)
	n, err := node.New(node.Config{
		Machine: machine, Store: store, Preview: preview, Logger: logger, Timeout: cfg.Timeout,
		ObserveCommit: meter.ObserveCommit, ObserveNote: observeNote(meter, watcher, happened, starts),
	})
	if err != nil {
		return fmt.Errorf("database %s: %w", filepath.Join(opts.Data, databaseName), err)
	}
	id, err := n.Identity(ctx)
	if err != nil {
		return err
	}
	happened.begin(id)
	var network *peers
	shared, err := directory.New(directory.Config{
		Self: id, Cluster: cfg.Cluster, Source: n, Log: happened.log, Logger: logger,
		About:    func() directory.Node { return about(cfg, watcher, func() *peers { return network }) },
		Services: servicesOf(watcher), Pace: idle.pace,
	})
	if err != nil {
		return err
	}
	network, err = newPeers(ctx, cfg, n, shared, happened, idle, logger)
	if err != nil {
		return err
	}
	host := newHost(n, logger)
	host.pace = idle.pace
	deafen := host.hear()
	defer deafen()
	if err := host.tell(ctx); err != nil {
		return err
	}
	probes := newProber(n, meter, logger)
	unconfined, err := probes.confine(ctx, opts, announces(cfg))
	if err != nil {
		return err
	}
	starts.of(n)
	lost, err := findAside(filepath.Join(opts.Data, databaseName))
	if err != nil {
		return err
	}
	macs := &locked{mac: !machine.NoMAC, inPlugin: inPlugin}
	view := &status{Node: n, watcher: watcher, locked: macs, lost: lost, sight: sight{inPlugin: inPlugin, named: named(opts, inPlugin)}, network: network, probes: probes, starts: starts, faults: []*fault{host.fault, host.unrouted, unconfined, openKeys(cfg, logger)}}
	meter.Watch(view.Snapshot)
	meter.WatchDirectory(shared.Stats)
	watcher.WhenBlind(n.Blind)

	record, err := newJournal(filepath.Join(opts.Data, journalName), cfg.Name, happened.log, n, logger)
	if err != nil {
		return err
	}
	view.faults = append(view.faults, record.fault)

	observe := idle.threads.observe(meter.ObserveRequest)
	drv, err := driver.New(driver.Config{Backend: engineCalls{n, watcher, probes, host, starts}, Logger: logger, Timeout: cfg.Timeout, NoMAC: machine.NoMAC, Observe: observe})
	if err != nil {
		return err
	}
	services, err := apis(opts, cfg, adminSocket, admin.Config{
		Backend: view, Process: &daemon{cfg: cfg, started: started, database: filepath.Join(opts.Data, databaseName), watcher: watcher, network: network, sink: sink},
		Logger: logger, Metrics: meter.Handler(), Timeout: cfg.Timeout, Observe: observe, Events: happened.log, Journal: record, Directory: shared,
		Page: page.Handler(), PagePaths: page.Paths(),
	})
	if err != nil {
		return err
	}
	// The node ends the process when its database fails, and the driver when
	// the engine's socket cannot be accepted on any more: the engine then starts
	// the plugin again, with a socket that it can connect to. Nothing else does.
	parts := []func(context.Context) error{
		n.Run,
		host.watch,
		host.listen,
		func(ctx context.Context) error { return drv.Serve(ctx, socket) },
		func(ctx context.Context) error { return watcher.Run(ctx, deliver(n, host, macs, starts)) },
		func(ctx context.Context) error { return happened.watch(ctx, view.Snapshot) },
		record.Run,
		shared.Run,
		starts.run,
		garbage.run,
		idle.threads.run,
	}
	if network != nil {
		meter.WatchGossip(network.Status, n.Refused)
		parts = append(parts, func(ctx context.Context) error { return network.run(ctx, n) })
	}
	for _, s := range services {
		parts = append(parts, s.run)
		view.faults = append(view.faults, s.fault)
	}
	forgetReason(opts, logger)
	err = together(ctx, parts)
	n.Wait()
	return err
}

// apis returns the services on the admin socket, which is open, and on
// RINGLET_HTTP if it is set.
func apis(opts cli.ServeOptions, cfg config.Config, socket net.Listener, common admin.Config) ([]part, error) {
	common.Written = func(w admin.Write) { common.Events.Ask(time.Now(), w.String()) }
	local, err := admin.New(common)
	if err != nil {
		return nil, err
	}
	out := []part{newAdmin(socket, opts.AdminSocket, local.Serve, common.Logger).part()}
	if cfg.HTTP == config.HTTPOff {
		return out, nil
	}
	common.Remote, common.Token, common.Context, common.Hosts = true, cfg.Token, node.AsGuest, namesOf(cfg)
	if cfg.HTTPCert != "" {
		pair := certfile.New(cfg.HTTPCert, cfg.HTTPKey)
		common.TLS = pair.Config()
		out = append(out, newCertificate(cfg, pair, common.Logger))
	}
	open, err := admin.New(common)
	if err != nil {
		return nil, err
	}
	return append(out, newHTTP(cfg.HTTP, open.Serve, common.Logger).part()), nil
}

// together runs the parts until ctx ends or one of them returns, ends the
// others, and returns the first error.
func together(ctx context.Context, parts []func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				once.Do(func() { first = err })
			}
			cancel(nil)
		})
	}
	wg.Wait()
	return first
}

// What is in the data directory.
const (
	databaseName = cli.DatabaseName
	journalName  = "journal" // a directory
)

// listed reports whether there is an engine that will list what it has: one whose socket is named, also where it starts
// behind this process, as with the unit of the manual; in a managed plugin the socket is there by now.
func listed(opts cli.ServeOptions, inPlugin bool) bool {
	return named(opts, inPlugin) || exists(opts.DockerSocket)
}

// named reports whether somebody says, outside a managed plugin, which socket the engine has.
func named(opts cli.ServeOptions, inPlugin bool) bool {
	return !inPlugin && opts.DockerSocket != "" && opts.DockerSocket != cli.DefaultDockerSocket
}

// checkMAC reports why an engine cannot be told to give endpoints no MAC: only its lists tell then what
// containers ask for. Whoever says that there is no engine needs none.
func checkMAC(cfg config.Config, opts cli.ServeOptions, inPlugin, lists bool) error {
	if cfg.MAC || lists || !inPlugin && opts.DockerSocket == "" {
		return nil
	}
	next := "name it with --docker-socket"
	if inPlugin {
		next = "let the plugin's mount docker have a directory with docker.sock in it"
	}
	return fmt.Errorf("RINGLET_MAC=false needs the engine's socket, as only the engine can tell then what a container's --ip is, and there is none at %s: %s, or set RINGLET_MAC=true", opts.DockerSocket, next)
}

// newWatcher returns what watches the engine, which does nothing without its
// socket, and whether this process runs in a managed plugin.
func newWatcher(opts cli.ServeOptions, logger *slog.Logger) (w *dockerd.Watcher, inPlugin bool, err error) {
	cfg := dockerd.Config{Socket: opts.DockerSocket, Names: opts.DriverNames, Logger: logger}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if cfg.Plugin, inPlugin = dockerd.PluginID(f); inPlugin {
		// The engine knows its name. One that does not know this plugin is
		// another engine, whose list must not make our addresses look free.
		cfg.Names = nil
	}
	w, err = dockerd.New(cfg)
	return w, inPlugin, err
}

// machineConfig turns the settings into the core's.
func machineConfig(cfg config.Config) ipam.Config {
	rest := cfg.Rest
	if rest == 0 {
		rest = -1 // none, where zero would mean the default
	}
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	return ipam.Config{
		Name: peer.Name(cfg.Name), Machine: machineID(cfg.Name), Rand: rand.New(rand.NewChaCha8(seed)),
		Rest: rest, Deal: deal(cfg.Deal), Chunk: addr.Count(cfg.Chunk),
		Join: len(cfg.Join) > 0 && cfg.Bootstrap.N != 1 || cfg.Bootstrap.N > 1, Formation: formation(cfg),
		FoundAlone: cfg.Bootstrap.N == 1,
		HostBoot:   hostBoot(), HostStart: hostStart(), BootAlone: cfg.BootAlone, BootWait: cfg.Timeout, CallTime: cfg.Timeout, EvictAfter: cfg.EvictAfter, Quarantine: cfg.Quarantine, Label: cfg.Cluster,
		Universe: cfg.Universe, ChooseULA: cfg.DeriveULA, Bits4: cfg.Subnet.V4, Bits6: cfg.Subnet.V6, Avoid: cfg.Avoid,
	}
}

func deal(d config.Deal) chronicle.Deal {
	switch d {
	case config.DealAll:
		return chronicle.DealAll
	case config.DealNone:
		return chronicle.DealNone
	case config.DealHalf:
	}
	return chronicle.DealHalf
}
