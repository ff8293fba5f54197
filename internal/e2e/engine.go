package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// startLimit is for dockerd to answer. Each network of an absent plugin costs it 15 s, each container that lost its
	// power some commits, and the disk may be busy.
	startLimit = 4 * time.Minute
	stopLimit  = 60 * time.Second // for dockerd to end after SIGTERM; it gives containers and plugins 10 s
)

// Config describes an engine.
type Config struct {
	// Name is the name of its host. Default "engine".
	Name string
	// Switch, when set, gives the host an interface eth0 on that switch, with Address.
	Switch  *Switch
	Address netip.Prefix
	// LiveRestore keeps containers and plugins running while dockerd is away.
	LiveRestore bool
	// Daemon adds settings in the form of daemon.json.
	Daemon map[string]any
	// Machines has the machine's own engine started, also where make e2e names another: see [Engine.Replace].
	Machines bool
}

// An Engine is a Docker engine, containerd and dockerd, on a host of its own. Use [Start].
type Engine struct {
	*Host
	// Log is dockerd's log, with the lines of the plugins in it.
	Log *Log

	cfg        Config
	containerd *process
	dockerd    *process
}

// Start starts an engine and returns when it answers. It ends with the test.
func Start(t testing.TB, cfg Config) *Engine {
	t.Helper()
	need(t, "dockerd", "containerd", "docker", "runc", "iptables")
	if cfg.Name == "" {
		cfg.Name = "engine"
	}
	e := &Engine{Host: NewHost(t, cfg.Name), Log: newLog(), cfg: cfg}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of dockerd on %s:\n%s", e.Name, e.Log.tail(25))
		}
	})
	daemon := map[string]any{
		"live-restore": cfg.LiveRestore,
		// Not systemd's, even where it runs: it knows nothing of this host.
		"exec-opts":      []string{"native.cgroupdriver=cgroupfs"},
		"cgroup-parent":  "/" + filepath.Base(e.dir), // which init.sh removes
		"storage-driver": "overlay2",
		"containerd":     "/run/containerd/containerd.sock",
	}
	maps.Copy(daemon, cfg.Daemon)
	text, err := json.Marshal(daemon)
	if err != nil {
		t.Fatal(err)
	}
	e.write(e.daemonJSON(), string(text))
	if cfg.Machines {
		e.engine = ""
	}
	e.plug()
	e.Up()
	return e
}

// plug connects the host as Config says, before dockerd starts and looks for the parents of its networks.
func (e *Engine) plug() {
	e.t.Helper()
	if e.cfg.Switch != nil {
		e.cfg.Switch.Plug(e.Host, e.cfg.Address)
	}
}

func (e *Engine) daemonJSON() string { return filepath.Join(e.dir, "daemon.json") }

// Up starts what is not running of the host, containerd and dockerd, and returns when dockerd answers: after
// [Engine.Kill], [Engine.Stop] and [Engine.PowerOff].
func (e *Engine) Up() {
	e.t.Helper()
	if e.cmd == nil {
		e.boot()
		e.plug()
	}
	if e.containerd == nil || !e.containerd.running() {
		e.startContainerd()
	}
	mark := e.Log.Mark()
	p, err := e.spawn(e.Log, "dockerd", "--config-file", e.daemonJSON())
	if err != nil {
		e.t.Fatal(err)
	}
	e.dockerd = p
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	go func() { // gives up the wait as soon as dockerd ends
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if _, err := e.Log.Wait(ctx, mark, startLimit, Contains("API listen on")); err != nil {
		e.t.Fatalf("dockerd on %s did not come up: %v", e.Name, err)
	}
}

func (e *Engine) startContainerd() {
	e.t.Helper()
	log := newLog()
	p, err := e.spawn(log, "containerd", "--log-level", "info")
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := log.Wait(e.t.Context(), 0, startLimit, Contains("successfully booted")); err != nil {
		e.t.Fatalf("containerd on %s did not come up: %v", e.Name, err)
	}
	e.containerd = p
}

// Kill ends dockerd with SIGKILL. Containers, plugins and containerd go on.
func (e *Engine) Kill() {
	e.t.Helper()
	e.end("KILL")
}

// Stop asks dockerd to end with SIGTERM and returns when it has: containers and plugins have ended too then, unless the
// engine was started with LiveRestore.
func (e *Engine) Stop() {
	e.t.Helper()
	e.end("TERM")
}

// Restart is [Engine.Stop] and [Engine.Up].
func (e *Engine) Restart() {
	e.t.Helper()
	e.Stop()
	e.Up()
}

// Replace stops the machine's own engine, and starts the one that make e2e names on what that has left.
func (e *Engine) Replace() {
	e.t.Helper()
	e.Stop()
	e.PowerOff()
	e.engine = os.Getenv(otherEngine)
	e.Up()
}

func (e *Engine) end(signal string) {
	e.t.Helper()
	if err := e.dockerd.end(signal); err != nil {
		e.t.Fatal(err)
	}
}

// Freeze stops dockerd with SIGSTOP: it keeps its connections and answers nothing.
func (e *Engine) Freeze() {
	e.t.Helper()
	if err := e.dockerd.signal("STOP"); err != nil {
		e.t.Fatal(err)
	}
}

// Thaw continues dockerd after [Engine.Freeze].
func (e *Engine) Thaw() {
	e.t.Helper()
	if err := e.dockerd.signal("CONT"); err != nil {
		e.t.Fatal(err)
	}
}

// PowerOff ends every process of the host at once, with SIGKILL. Files keep what was written to them, synced or not;
// mounts, interfaces and /run are gone. [Engine.Up] starts the host again, plugged in where Config says.
func (e *Engine) PowerOff() {
	e.t.Helper()
	if err := e.cmd.Process.Kill(); err != nil {
		e.t.Fatal(err)
	}
	e.thaw()
	e.Host.end()
}

// Wipe is [Engine.PowerOff] and the loss of the engine's disk: what [Engine.Up] starts is the same machine, set up anew.
func (e *Engine) Wipe() {
	e.t.Helper()
	e.PowerOff()
	plugins, err := filepath.Glob(filepath.Join(e.dir, "docker", "plugins", strings.Repeat("[0-9a-f]", 64)))
	if err != nil {
		e.t.Fatal(err)
	}
	ended, err := os.OpenFile(filepath.Join(e.dir, "plugins"), os.O_APPEND|os.O_WRONLY, 0) // see init.sh
	if err != nil {
		e.t.Fatal(err)
	}
	defer ended.Close()
	for _, p := range plugins {
		if _, err := fmt.Fprintln(ended, filepath.Base(p)); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, state := range []string{"docker", "containerd", "etc-docker"} {
		if err := os.RemoveAll(filepath.Join(e.dir, state)); err != nil {
			e.t.Fatal(err)
		}
	}
}

// thaw lets paused containers take the SIGKILL that waits for them, as init.sh does at the end of the test.
func (e *Engine) thaw() {
	e.t.Helper()
	frozen, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", filepath.Base(e.dir), "*/freezer.state"))
	if err != nil {
		e.t.Fatal(err)
	}
	for _, state := range frozen {
		if err := os.WriteFile(state, []byte("THAWED"), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.t.Fatal(err)
		}
	}
}
