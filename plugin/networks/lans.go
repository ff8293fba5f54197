package networks

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// LAN is a network whose containers share a link with other machines.
type LAN struct {
	name    string
	subnets []netip.Prefix
}

// LANsOf returns the networks of an engine that are LANs, and the subnets of the others.
func LANsOf(networks []dockerd.Network) (found []LAN, others []netip.Prefix) {
	for _, n := range networks {
		var subnets []netip.Prefix
		for _, s := range n.Subnets {
			if s.Prefix.IsValid() {
				subnets = append(subnets, s.Prefix)
			}
		}
		if n.Driver == "macvlan" || n.Driver == ipvlan {
			found = append(found, LAN{n.Name, subnets})
			continue
		}
		others = append(others, subnets...)
	}
	return found, others
}

// LANs knows which pools are LANs. The engine's list tells. Before it, and of a network that was made since, a bridge of this
// host tells that one is none. The zero value is ready.
type LANs struct {
	mu      sync.Mutex
	known   []LAN
	private []netip.Prefix // subnets of other networks
}

// See takes in a complete list of the engine.
func (l *LANs) See(known []LAN, private []netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known, l.private = known, private
}

// Names returns the LANs that the last list had.
func (l *LANs) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, n := range l.known {
		names = append(names, fmt.Sprintf("network %s", n.name))
	}
	return names
}

// MayBe reports whether a pool is a LAN, or nobody can tell.
func (l *LANs) MayBe(pool netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.known {
		if slices.Contains(n.subnets, pool) {
			return true
		}
	}
	return !slices.Contains(l.private, pool) && !slices.ContainsFunc(bridged(), pool.Contains)
}

// bridged returns the addresses of this host on bridges.
func bridged() (on []netip.Addr) {
	all, err := kernelnet.Interfaces()
	if err != nil {
		return nil
	}
	for i := range all {
		if _, err := os.Stat(filepath.Join("/sys/class/net", all[i].Name, "bridge")); err != nil {
			continue
		}
		for _, a := range all[i].Addresses {
			on = append(on, a.Addr())
		}
	}
	return on
}
