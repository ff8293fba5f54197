package engine

import (
	"net/netip"
	"slices"
)

// TakeHost notes which addresses the host itself has, with their masks, and where it has routes to and no subnet is to be
// chosen.
func (e *Engine) TakeHost(addresses, routed []netip.Prefix) {
	e.host, e.routed = slices.Clone(addresses), slices.Clone(routed)
}

// Host returns the addresses that the host itself has, with their masks. The list is not to be changed.
func (e *Engine) Host() []netip.Prefix { return e.host }

// Routed returns where the host has routes to and no subnet is to be chosen. The list is not to be changed.
func (e *Engine) Routed() []netip.Prefix { return e.routed }

// OnHost reports whether the host itself has the address.
func (e *Engine) OnHost(a netip.Addr) bool {
	return slices.ContainsFunc(e.host, func(p netip.Prefix) bool { return p.Addr() == a })
}
