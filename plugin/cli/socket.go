package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

// target is what a command speaks to.
type target struct {
	socket string
	plugin dockerd.Plugin // whose socket it is; zero if the socket was named
	host   string         // of the engine that has the plugin, as for [dockerd.FindPlugin]
}

// find returns the plugin's admin socket: as it was given, or of the one plugin that
// the engine has, or if it has none, of the process that runs outside Docker. Errors: *disabledError if that one is disabled, and others.
func (a *app) find(ctx context.Context) (target, error) {
	if a.socket != "" {
		return target{socket: a.socket}, nil
	}
	if path := a.cfg.Getenv("RINGLET_SOCKET"); path != "" {
		return target{socket: path}, nil
	}
	host := a.host
	if d := a.cfg.docker; d != nil && host == "" {
		var err error
		if host, err = d.engine(a.cfg.Getenv); err != nil {
			return target{}, err
		}
	}
	plugins, err := a.cfg.FindPlugin(ctx, host)
	if len(plugins) == 0 && a.runsHere(host) && !errors.Is(err, fs.ErrPermission) {
		return target{socket: a.cfg.unitSocket}, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return target{}, errors.New("you may not ask the docker engine for the plugin: try again with sudo")
	}
	if err != nil {
		return target{}, fmt.Errorf("the docker engine cannot be asked for the plugin: %w; name the plugin's socket with --socket", err)
	}
	p, err := onePlugin(plugins)
	return target{p.AdminSocket(), p, host}, err
}

// unitSocket is the admin socket of the process that runs outside Docker, as the systemd unit of the manual has it.
const unitSocket = "/run/ringlet/admin.sock"

// runsHere reports whether that process has its socket on the host of the engine, which is this one.
func (a *app) runsHere(host string) bool {
	if at := cmp.Or(host, a.cfg.Getenv("DOCKER_HOST")); at != "" && !strings.HasPrefix(at, "unix://") {
		return false
	}
	is, err := os.Stat(a.cfg.unitSocket)
	return err == nil && is.Mode().Type() == fs.ModeSocket
}

// disabledError is that the engine has the plugin, and does not run it.
type disabledError struct{ name string }

// Error implements error.
func (e *disabledError) Error() string {
	return fmt.Sprintf("the plugin %s is disabled: enable it with docker plugin enable %[1]s; if it does not start, ringlet doctor says why", e.name)
}

// onePlugin returns the plugin that is meant: the only one that is enabled. With the
// error that none is comes the first one.
func onePlugin(plugins []dockerd.Plugin) (dockerd.Plugin, error) {
	var enabled, disabled []dockerd.Plugin
	for _, p := range plugins {
		if p.Enabled {
			enabled = append(enabled, p)
		} else {
			disabled = append(disabled, p)
		}
	}
	switch {
	case len(enabled) == 1:
		return enabled[0], nil
	case len(enabled) > 1:
		var lines strings.Builder
		for _, p := range enabled {
			fmt.Fprintf(&lines, "\n  --socket %s   %s", p.AdminSocket(), p.Name)
		}
		return dockerd.Plugin{}, fmt.Errorf("the engine has %d ringlet plugins: say which, with one of%s", len(enabled), &lines)
	case len(disabled) > 0:
		return disabled[0], &disabledError{disabled[0].Name}
	}
	return dockerd.Plugin{}, errors.New("the engine has no ringlet plugin: install it with docker plugin install, or name the socket of a process with --socket")
}
