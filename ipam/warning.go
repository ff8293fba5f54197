package ipam

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Package warning says what peers warn one another of (wire.InUse). A peer that is warned holds the addresses in its ranges as it
// holds that of a device which answered a probe, also in ranges that it opens later. It takes none from a holder that has one: that
// is a conflict, and reported. What the former peer of a host has left is in [Config.Remains].

// takeInUse takes in the warning of another peer. One that is not of this cluster, and never
// was, has nothing here; one that this peer does not know to be given up yet owns what it warns of.
func (m *Machine) takeInUse(from peer.ID, q wire.InUse) {
	if m.state.Member(from) == nil && m.state.Gone(from) == nil || m.lacks(rule.Warn) {
		return
	}
	if q.All {
		for _, a := range m.warnings.Missing(from, q.Addresses) {
			m.pools.EndWarning(a)
		}
	}
	for _, a := range q.Addresses {
		m.pools.Warn(a, from)
	}
	m.pools.NoteWarned()
}

// endWarnings ends those that nobody has repeated. What a client of this host has yet to claim again stays, and so does what
// containers of this host may have, as long as the engine has listed nothing: its release ends that, or an operator.
func (m *Machine) endWarnings() {
	lasts := func(a netip.Addr, by peer.ID) bool {
		return by == m.members.Self() && (m.members.Former.Awaits(a, "") || !m.engine.KnowsStart())
	}
	for _, a := range m.warnings.Over(lasts) {
		m.pools.EndWarning(a)
	}
}

// warnOthers warns all peers that this one reaches, when it is time.
func (m *Machine) warnOthers() {
	if !m.warns() || !m.warnings.IsDue() {
		return
	}
	m.warnings.Sent()
	for _, id := range m.members.View().Known() {
		m.warnPeer(id)
	}
}

// warns reports whether this peer has to warn others.
func (m *Machine) warns() bool {
	if m.members.IsGivenUp() {
		return true
	}
	return m.warnings.Count(m.members.Self()) > 0 && !m.members.IsSuspended() && m.members.IsMember()
}

// warnPeer warns one peer, if it can be reached.
func (m *Machine) warnPeer(to peer.ID) {
	if to == m.members.Self() || !m.warns() || !m.members.View().Live(to) {
		return
	}
	all := m.warnings.Of(m.members.Self())
	if m.members.IsGivenUp() {
		all = m.pools.Used()
	}
	if len(all) <= wire.MaxInUse {
		m.out.Send(to, wire.InUse{Addresses: all, All: true})
		return
	}
	for part := range slices.Chunk(all, wire.MaxInUse) {
		m.out.Send(to, wire.InUse{Addresses: part})
	}
}

// mayClaim reports why an address of which a peer warns is refused, if it is: only who has it may claim it.
func (m *Machine) mayClaim(p *pool.Pool, a netip.Addr, h *space.Holder) error {
	if h.Kind == space.Client && h.Ref != "" && m.members.Former.Awaits(a, h.Ref) || h.Kind == space.Unmarked && !m.pools.IsInUseElsewhere(a) {
		return nil // an endpoint of this host that the engine asks for again may be who has it
	}
	return p.ErrWarned(a)
}
