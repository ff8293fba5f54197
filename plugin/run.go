package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/logging"
	"github.com/ringlet/ringlet/plugin/privilege"
)

// errSettings is returned when the settings are wrong; each of them has been
// logged.
var errSettings = errors.New("the settings are wrong, see above")

// run is the plugin's process: it serves until ctx ends or something fails
// that only an operator can mend, as settings that are wrong.
//
// The sockets are opened first, so that the engine finds them within its few
// seconds whatever the disk has to say; what it asks meanwhile waits. They stay
// open while the database is opened again: see [front].
func run(ctx context.Context, opts cli.ServeOptions) error {
	// Else Go ends the process at the first line of its log that nobody is there to
	// read any more. That write fails, and the line is lost, as others may be.
	signal.Ignore(syscall.SIGPIPE)
	opts.Drop = privilege.Early(opts.Drop) // before anything is read, so that what a later start could not read is refused now
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
		logger.Debug("exit reason not written", logattr.Err(err)) // the log has them
	}
}

// forgetReason takes back why an earlier process ended.
func forgetReason(opts cli.ServeOptions, logger *slog.Logger) {
	if err := lastwords.Forget(opts.Data); err != nil {
		logger.Warn("old exit reason not removed", logattr.Err(err))
	}
}

// What is in the data directory.
const (
	databaseName = cli.DatabaseName
	journalName  = "journal" // a directory
)

// listed reports whether there is an engine that will list what it has: one whose socket is named, also where it starts
// behind this process, as with the unit of the manual; in a managed plugin the socket is there by now.
func listed(opts cli.ServeOptions, inPlugin bool) bool {
	return named(opts, inPlugin) || dockerd.HasSocket(opts.DockerSocket)
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
		next = "set the plugin's mount docker to a directory with docker.sock in it"
	}
	return fmt.Errorf("RINGLET_MAC=false needs the engine's socket, because only the engine can then say what a container's --ip is, and there is no socket at %s: %s, or set RINGLET_MAC=true", opts.DockerSocket, next)
}

// pluginID returns the ID of the managed plugin that this process runs in, and false outside one.
func pluginID() (id string, inPlugin bool, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	id, inPlugin = dockerd.PluginID(f)
	return id, inPlugin, nil
}

// newWatcher returns what watches the engine, which does nothing without its
// socket. The plugin ID is empty outside a managed plugin.
func newWatcher(opts cli.ServeOptions, labels []string, plugin string, logger *slog.Logger) (*dockerd.Watcher, error) {
	cfg := dockerd.Config{Socket: opts.DockerSocket, Plugin: plugin, Names: opts.DriverNames, Labels: labels, Logger: logger}
	if plugin != "" {
		// The engine knows its name. One that does not know this plugin is
		// another engine, whose list must not make our addresses look free.
		cfg.Names = nil
	}
	return dockerd.New(cfg)
}
