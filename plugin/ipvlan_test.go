package main

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// No container starts on a network of driver ipvlan as long as the engine gives each a MAC, which the status
// says, with what to do. With RINGLET_MAC=false, and on other networks, all is well.
func TestNetworksThatTakeNoMAC(t *testing.T) {
	lan, dmz := dockerd.Network{Name: "lan", Driver: "ipvlan"}, dockerd.Network{Name: "dmz", Driver: "ipvlan"}
	for _, c := range []struct {
		mac, inPlugin bool
		networks      []dockerd.Network
		text, next    string
	}{
		{true, true, []dockerd.Network{{Name: "web", Driver: "bridge"}, lan}, "network lan is of driver ipvlan", "docker plugin set acme/ringlet:1 RINGLET_MAC=false"},
		{true, false, []dockerd.Network{lan, dmz}, "networks dmz and lan are of driver ipvlan", "restart ringlet serve with RINGLET_MAC=false"},
		{true, true, []dockerd.Network{lan, dmz, {Name: "a", Driver: "ipvlan"}}, "network a and 2 others are of driver ipvlan", ""},
		{true, true, []dockerd.Network{{Name: "web", Driver: "macvlan"}}, "", ""},
		{true, true, nil, "", ""},
		{false, true, []dockerd.Network{lan}, "", ""},
	} {
		l := &locked{mac: c.mac, inPlugin: c.inPlugin}
		if p, wrong := l.problem(nil); wrong {
			t.Errorf("before anything is known: %+v", p)
		}
		l.see(c.networks)
		p, wrong := l.problem([]string{"acme/ringlet:1"})
		if wrong != (c.text != "") || !strings.HasPrefix(p.Text, c.text) || !strings.Contains(p.Next, c.next) {
			t.Errorf("%+v: %v, %+v", c, wrong, p)
		}
		l.see(nil)
		if p, wrong := l.problem(nil); wrong {
			t.Errorf("the networks are gone: %+v", p)
		}
	}
}

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
