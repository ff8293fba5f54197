package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

// findSocket returns the path of the admin socket: as it was given, or of the
// one plugin that the engine has.
func (a *app) findSocket(ctx context.Context) (string, error) {
	if a.socket != "" {
		return a.socket, nil
	}
	if path := a.cfg.Getenv("RINGLET_SOCKET"); path != "" {
		return path, nil
	}
	host := a.host
	if d := a.cfg.docker; d != nil && host == "" {
		var err error
		if host, err = d.engine(a.cfg.Getenv); err != nil {
			return "", err
		}
	}
	plugins, err := a.cfg.FindPlugin(ctx, host)
	if err != nil {
		return "", fmt.Errorf("the docker engine cannot be asked for the plugin: %w; name the plugin's socket with --socket", err)
	}
	p, err := onePlugin(plugins)
	if err != nil {
		return "", err
	}
	return p.AdminSocket(), nil
}

// onePlugin returns the plugin that is meant: the only one that is enabled.
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
		return dockerd.Plugin{}, fmt.Errorf("the plugin %s is disabled: enable it with docker plugin enable %[1]s; if it does not start, the engine's log says why, as in journalctl -u docker", disabled[0].Name)
	}
	return dockerd.Plugin{}, errors.New("the engine has no ringlet plugin: install it with docker plugin install, or name the socket of a process with --socket")
}
