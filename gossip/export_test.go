package gossip

import (
	"context"
	"net/netip"
)

// SetHost gives a peer under test another host: its addresses, and the names
// that it knows.
func SetHost(cfg *Config, addrs func() []netip.Addr, lookup func(context.Context, string) ([]netip.Addr, error)) {
	h := noHost()
	if addrs != nil {
		h.addrs = func() ([]hostAddr, error) {
			var have []hostAddr
			for _, a := range addrs() {
				have = append(have, hostAddr{"eth0", a})
			}
			return have, nil
		}
	}
	if lookup != nil {
		h.lookup = lookup
	}
	cfg.host = h
}

// SetRoutes gives the host of [SetHost] the address from which others are reached.
func SetRoutes(cfg *Config, source func(to netip.Addr) (netip.Addr, error)) { cfg.host.source = source }
