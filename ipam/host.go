package ipam

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
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
	m.pools.SettleHostConflicts()
	for _, p := range m.pools.Sorted() {
		m.sightHost(p)
		for o, kind := range p.Space.Kinds() {
			if kind != space.Host || m.engine.OnHost(addr.Nth(p.CIDR, o)) {
				continue
			}
			// Interfaces come and go while networks are made anew; a bridge without a network does not.
			first, _ := p.OffHost.Since(o, read)
			if read.Sub(m.engine.SureSince(first)) >= m.cfg.Grace || p.Space.Lookup(o).Key == pool.GatewayKey() {
				m.leaveToListed(p, o)
			}
		}
	}
}

// leaveToListed frees what the host had itself, and leaves it to a container that has it, too, by the engine's last list.
func (m *Machine) leaveToListed(p *pool.Pool, o addr.Offset) {
	ref, lives := p.Seen[o]
	p.Free(o)
	if lives {
		p.Seen[o] = ref
	}
	p.SettleAt(addr.One(o))
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
			m.sightHost(p)
		}
	}
}

// sightHost holds those of the host's addresses that lie in the pool.
func (m *Machine) sightHost(p *pool.Pool) {
	p.Untaken = false
	if m.givesUp(p) {
		return
	}
	for _, a := range m.engine.Host() {
		o, ok := addr.OffsetOf(p.CIDR, a.Addr())
		if !ok {
			continue
		}
		r := p.ReservationAt(o)
		if !pool.IsHoldable(r) {
			continue
		}
		h := space.Holder{Kind: space.Host}
		rec := p.Space.Lookup(o)
		switch {
		case rec.State != space.Held || rec.Kind == space.Stranger || rec.Kind == space.Kept:
			if p.Space.Mine(o) {
				p.DismissStranger(o)
			}
			err := m.borrow(p, o, r)
			if err == nil {
				p.DismissWarned(o)
				_ = m.take(p, o, &h, new(AddressGrant)) // what is mine and not held can be taken
			}
			p.Untaken = p.Untaken || m.stillOthers(p, o, err)
		case rec.Kind == space.Host:
			delete(p.OffHost, o)
		case rec.Kind == space.Gateway, rec.Kind == space.Client: // a client may have got it for an interface of this host
		case m.lacks(rule.Standing):
			p.Free(o)
			_ = m.take(p, o, &h, new(AddressGrant))
		default: // a grant stands (R64)
			p.Dispute(o, h, m.now.UnixNano(), "is held by "+m.pools.HolderText(rec.Holder, rec.Since), p.EndOf(o, rec.Holder, rec.Since))
		}
	}
}
