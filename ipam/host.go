package ipam

import (
	"net/netip"
	"slices"
)

// takeHost keeps back the addresses that the host itself has. An engine does
// not list the gateways of its bridges among its endpoints, and knows nothing
// of the host's own address on a LAN that containers share with it.
func (m *Machine) takeHost(q *HostAddresses) {
	read := m.members.Me.At()
	if q.After.Nonce == m.members.Me.Nonce() {
		read = q.After.At
	}
	var routed []netip.Prefix
	for _, r := range q.Routes {
		if m.countsAsRouted(r) {
			routed = append(routed, r.To)
		}
	}
	m.engine.TakeHost(q.Addresses, routed)
	m.survey.TakeHost(read)
}

// countsAsRouted reports whether no subnet is to be chosen where a route leads. One
// that leads elsewhere from wherever subnets are chosen is how hosts reach the
// containers of one another: it says of none that it is taken.
func (m *Machine) countsAsRouted(r HostRoute) bool {
	return slices.ContainsFunc(m.cfg.Subnets.Universe, func(u netip.Prefix) bool {
		return r.To.Overlaps(u) && (r.OnLink || r.To.Bits() > u.Bits())
	})
}

// sightNew does what [pool.Pools.LookSoon] is for, once this peer may ask others. One that is alone
// holds what the host has as it comes.
func (m *Machine) sightNew() {
	for _, p := range m.pools.TakeUnsighted() {
		if m.pools.Of(p.Key) == p && !m.members.View().Alone() {
			m.survey.Host(p)
		}
	}
}
