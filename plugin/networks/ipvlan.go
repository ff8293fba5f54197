package networks

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// ipvlan is the network driver that starts no container which was given a MAC.
const ipvlan = "ipvlan"

// NoMAC is the networks on which no container starts, since the engine gives each a MAC
// (RINGLET_MAC). Safe for concurrent use.
type NoMAC struct {
	MAC      bool                     // the setting
	InPlugin bool                     // this process is a managed plugin
	names    atomic.Pointer[[]string] // of the networks, in order; nil: none is known
}

// See takes note of the networks that the engine has.
func (l *NoMAC) See(networks []dockerd.Network) {
	var names []string
	for _, n := range networks {
		if l.MAC && n.Driver == ipvlan {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	l.names.Store(&names)
}

// Problem returns what an operator should know; false if nothing is wrong. self is what this plugin is
// called.
func (l *NoMAC) Problem(self []string) (ipam.Problem, bool) {
	names := l.names.Load()
	if names == nil || len(*names) == 0 {
		return ipam.Problem{}, false
	}
	which := "network " + (*names)[0] + " is"
	switch more := len(*names) - 1; {
	case more == 1:
		which = fmt.Sprintf("networks %s and %s are", (*names)[0], (*names)[1])
	case more > 1:
		which = fmt.Sprintf("network %s and %d others are", (*names)[0], more)
	}
	next := "restart ringlet serve with RINGLET_MAC=false, and then the engine"
	if l.InPlugin {
		name := "ringlet:latest"
		if len(self) > 0 {
			name = self[0]
		}
		next = fmt.Sprintf("docker plugin disable --force %s, docker plugin set %[1]s RINGLET_MAC=false, docker plugin enable %[1]s; running containers go on", name)
	}
	return ipam.Problem{
		Code: "mac-on-ipvlan", Level: string(ipam.Degraded),
		Text: which + " of driver " + ipvlan + ", on which no container starts while the engine gives each one a MAC",
		Next: next,
	}, true
}
