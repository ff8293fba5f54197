package ipam

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
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
	m.settleHostConflicts()
	for _, p := range m.sortedPools() {
		m.sightHost(p)
		for o, kind := range p.Space.Kinds() {
			if kind != space.Host || m.engine.OnHost(addr.Nth(p.CIDR, o)) {
				continue
			}
			// Interfaces come and go while networks are made anew; a bridge without a network does not.
			first, _ := p.OffHost.Since(o, read)
			if read.Sub(m.engine.SureSince(first)) >= m.cfg.Grace || p.Space.Lookup(o).Key == gatewayKey() {
				m.leaveToListed(p, o)
			}
		}
	}
}

// leaveToListed frees what the host had itself, and leaves it to a container that has it, too, by the engine's last list.
func (m *Machine) leaveToListed(p *pool.Pool, o addr.Offset) {
	ref, lives := p.Seen[o]
	m.freeHolding(p, o)
	if lives {
		p.Seen[o] = ref
	}
	m.settleAt(p, addr.One(o))
}

// countsAsRouted reports whether no subnet is to be chosen where a route leads. One
// that leads elsewhere from wherever subnets are chosen is how hosts reach the
// containers of one another: it says of none that it is taken.
func (m *Machine) countsAsRouted(r HostRoute) bool {
	return slices.ContainsFunc(m.cfg.Subnets.Universe, func(u netip.Prefix) bool {
		return r.To.Overlaps(u) && (r.OnLink || r.To.Bits() > u.Bits())
	})
}

// holdHost holds those of the host's addresses that lie in a range which has just
// become this peer's, or was freed, before a container can have them.
func (m *Machine) holdHost(p *pool.Pool, r addr.Range) {
	for _, a := range m.engine.Host() {
		o, ok := addr.OffsetOf(p.CIDR, a.Addr())
		if !ok || !r.Contains(o) || !holdable(p.ReservationAt(o)) {
			continue
		}
		p.WakeKept(o, m.now)
		h := space.Holder{Kind: space.Host}
		if g, out := p.Space.Claim(o, &h, m.now, nil); out == space.Taken {
			m.saveGrant(p, &g, &h)
			m.noteUse(NoteGranted, p, a.Addr(), &h, g.Since)
		}
	}
}

// holdable reports whether what somebody here has anyway, as the host itself, is to be held
// where it is kept back so, or not at all (nil). What is kept for a name a container would get
// otherwise; all else nobody gets.
func holdable(r *chronicle.Reservation) bool {
	return r == nil || r.Kind == chronicle.KindKeptForName
}

// sightSoon has this peer look for the host's addresses in a pool in this step, if the host
// itself has one in a range that has just become somebody's to hand out: within a second,
// until it would look anyway, others could give it to a container.
func (m *Machine) sightSoon(p *pool.Pool, r addr.Range) {
	if p == nil || slices.Contains(m.pools.unsighted, p) { // it goes in the same slot, or is looked at already
		return
	}
	for _, a := range m.engine.Host() {
		if o, ok := addr.OffsetOf(p.CIDR, a.Addr()); ok && r.Contains(o) {
			m.pools.unsighted = append(m.pools.unsighted, p)
			return
		}
	}
}

// sightNew does what sightSoon is for, once this peer may ask others. One that is alone
// holds what the host has as it comes.
func (m *Machine) sightNew() {
	if len(m.pools.unsighted) == 0 || m.ready() != nil {
		return
	}
	pools := m.pools.unsighted
	m.pools.unsighted = nil
	for _, p := range pools {
		if m.pools.of[p.Key] == p && !m.members.View().Alone() {
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
		if !holdable(r) {
			continue
		}
		h := space.Holder{Kind: space.Host}
		rec := p.Space.Lookup(o)
		switch {
		case rec.State != space.Held || rec.Kind == space.Stranger || rec.Kind == space.Kept:
			if p.Space.Mine(o) {
				m.dismissStranger(p, o)
			}
			err := m.borrow(p, o, r)
			if err == nil {
				m.dismissWarned(p, o)
				_ = m.take(p, o, &h, new(AddressGrant)) // what is mine and not held can be taken
			}
			p.Untaken = p.Untaken || m.stillOthers(p, o, err)
		case rec.Kind == space.Host:
			delete(p.OffHost, o)
		case rec.Kind == space.Gateway, rec.Kind == space.Client: // a client may have got it for an interface of this host
		case m.lacks(rule.Standing):
			m.freeHolding(p, o)
			_ = m.take(p, o, &h, new(AddressGrant))
		default: // a grant stands (R64)
			m.conflictOf(p, o, h, m.now.UnixNano(), "is held by "+m.holderText(rec.Holder, rec.Since), m.endOf(p, o, rec.Holder, rec.Since))
		}
	}
}
