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
