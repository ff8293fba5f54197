package main

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
)

// Without the engine's lists nobody could tell what a container asks for from what the engine has.
func TestNoMACNeedsTheSocket(t *testing.T) {
	for _, c := range []struct {
		mac, inPlugin, lists bool
		socket               string
		wrong                string
	}{
		{true, true, false, "/run/docker/host/docker.sock", ""},
		{false, true, true, "/run/docker/host/docker.sock", ""},
		{false, true, false, "/run/docker/host/docker.sock", "mount docker"},
		{false, false, false, "/run/docker/host/docker.sock", "--docker-socket"},
		{false, false, false, "", ""},
	} {
		err := checkMAC(config.Config{MAC: c.mac}, cli.ServeOptions{DockerSocket: c.socket}, c.inPlugin, c.lists)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
