package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/suspend"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A host whose space was given up may come back with its containers. What they use may be
// anybody's by then. So its peer warns every peer that it reaches of these addresses (wire.InUse),
// at once and again each minute, until it has started over and has them again, or the containers
// are gone. Whoever is warned hands none of them out for ten minutes: it holds those in its ranges
// as it holds the address of a device that answered a probe, also in ranges that it opens later. It
// takes none from a holder that has one: that is a conflict, and reported.
//
// A peer that starts over warns itself and the others of what its former self has left
// (Config.Remains), until it has taken that in.

// takeInUse takes in the warning of another peer. One that is not of this cluster, and never
// was, has nothing here; one that this peer does not know to be given up yet owns what it warns of.
func (m *Machine) takeInUse(from peer.ID, q wire.InUse) {
	if m.state.Member(from) == nil && m.state.Gone(from) == nil || m.lacks(rule.Warn) {
		return
	}
	if q.All {
		for _, a := range m.warnings.Missing(from, q.Addresses) {
			m.dropWarning(a)
		}
	}
	for _, a := range q.Addresses {
		m.warn(a, from)
	}
	m.noteWarned()
}

// warn takes note that an address is in use on the host of that peer.
func (m *Machine) warn(a netip.Addr, by peer.ID) {
	heeds, news := m.warnings.Take(a, by, m.members.Self())
	m.calls.changed = m.calls.changed || news
	if p := m.poolAt(a); p != nil && heeds {
		o, _ := addr.OffsetOf(p.CIDR, a)
		m.holdWarned(p, addr.One(o))
	}
}

// endWarnings ends those that nobody has repeated. What a client of this host has yet to claim again stays, and so does what
// containers of this host may have, as long as the engine has listed nothing: its release ends that, or an operator.
func (m *Machine) endWarnings() {
	lasts := func(a netip.Addr, by peer.ID) bool {
		return by == m.members.Self() && (m.members.Former.Awaits(a, "") || !m.engine.KnowsStart())
	}
	for _, a := range m.warnings.Over(lasts) {
		m.dropWarning(a)
	}
}

// endOwnWarning ends the warning of this peer itself, if there is one, and reports whether there was: the engine has released the
// address, or an operator frees it, so what used it before this peer rejoined has ended.
func (m *Machine) endOwnWarning(a netip.Addr) bool {
	by, _ := m.warnings.By(a)
	if by == m.members.Self() {
		m.dropWarning(a)
	}
	return by == m.members.Self()
}

// dropWarning ends a warning, and frees what is held because of it.
func (m *Machine) dropWarning(a netip.Addr) {
	if !m.warnings.End(a) {
		return
	}
	m.calls.changed = true
	if p := m.poolAt(a); p != nil {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if isWarned(p.Space.Lookup(o)) {
			m.freeHolding(p, o)
			m.settleAt(p, addr.One(o))
		}
		m.conflicts.EndWarned(place(p, o))
	}
}

// dismissWarned ends the warning of an address that its user has again.
func (m *Machine) dismissWarned(p *pool.Pool, o addr.Offset) {
	if !m.warnings.IsEmpty() {
		m.dropWarning(addr.Nth(p.CIDR, o))
	}
}

// isWarned reports whether an address is held because of a warning: a device has a MAC.
func isWarned(rec space.Record) bool {
	return rec.State == space.Held && rec.Kind == space.Stranger && rec.MAC == [6]byte{}
}

// holdWarned holds what others were warned of in a range of this peer, unless somebody has it.
func (m *Machine) holdWarned(p *pool.Pool, r addr.Range) {
	if m.warnings.IsEmpty() || !m.members.Me.HasBegun() { // the first step holds what a database has
		return
	}
	for _, a := range m.warnedIn(p, r) {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if !holdable(p.ReservationAt(o)) {
			continue
		}
		p.WakeKept(o, m.now)
		h := space.Holder{Kind: space.Stranger}
		if g, out := p.Space.Claim(o, &h, m.now, nil); out == space.Taken {
			m.saveGrant(p, &g, &h)
			rec := p.Space.Lookup(o)
			m.note(Note{Kind: NoteStranger, Pool: p.CIDR, Address: a, Holder: m.warnedText(a), Use: useOf(&rec)})
		}
	}
}

// warnedIn returns the addresses of a range that others were warned of, in order.
func (m *Machine) warnedIn(p *pool.Pool, r addr.Range) (out []netip.Addr) {
	if r.Size() == 1 {
		if a := addr.Nth(p.CIDR, r.Start); m.isInUse(a) {
			out = append(out, a)
		}
		return out
	}
	return m.warnings.Which(func(a netip.Addr) bool {
		o, ok := addr.OffsetOf(p.CIDR, a)
		return ok && r.Contains(o)
	})
}

// isInUse reports whether a peer warns of the address.
func (m *Machine) isInUse(a netip.Addr) bool {
	_, warned := m.warnings.By(a)
	return warned
}

// inUseElsewhere reports whether another peer warns of the address.
func (m *Machine) inUseElsewhere(a netip.Addr) bool {
	by, warned := m.warnings.By(a)
	return warned && by != m.members.Self()
}

// warnedText says who uses an address of which a peer warns.
func (m *Machine) warnedText(a netip.Addr) string {
	by, _ := m.warnings.By(a)
	if by == m.members.Self() {
		return "a container or client of " + string(m.cfg.Name) + " from before its database was made"
	}
	return "a container or client on " + m.members.View().NameOf(by) + ", whose addresses were released with ringlet forget"
}

// noteWarned reports what holders here have although a peer warns of it, as long as it does.
func (m *Machine) noteWarned() {
	if m.warnings.IsEmpty() {
		return
	}
	for _, p := range m.sortedPools() {
		for _, a := range m.warnedIn(p, addr.Whole(p.CIDR)) {
			o, _ := addr.OffsetOf(p.CIDR, a)
			rec := p.Space.Lookup(o)
			if !m.inUseElsewhere(a) || rec.State != space.Held || rec.Kind == space.Stranger || rec.Kind == space.Kept {
				continue
			}
			d := m.disputeOf(rec.Holder, rec.Since, "also by "+m.warnedText(a), m.endOf(p, o, rec.Holder, rec.Since), "the other one")
			d.Warned = true
			m.disagree(p, o, d)
		}
	}
}

// toWarnOf returns the addresses of which this peer warns the others.
func (m *Machine) toWarnOf() (out []netip.Addr) {
	if m.members.Suspension.For(suspend.GivenUp) {
		return m.usedHere()
	}
	if m.members.IsSuspended() {
		return nil
	}
	return m.warnings.Of(m.members.Self())
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
	if m.members.Suspension.For(suspend.GivenUp) {
		return true
	}
	return !m.warnings.IsEmpty() && !m.members.IsSuspended() && m.warnings.Count(m.members.Self()) > 0 && m.members.IsMember() // this is asked in each step
}

// warnPeer warns one peer, if it can be reached.
func (m *Machine) warnPeer(to peer.ID) {
	if to == m.members.Self() || !m.warns() || !m.members.View().Live(to) {
		return
	}
	all := m.toWarnOf()
	if len(all) <= wire.MaxInUse {
		m.send(to, wire.InUse{Addresses: all, All: true})
		return
	}
	for part := range slices.Chunk(all, wire.MaxInUse) {
		m.send(to, wire.InUse{Addresses: part})
	}
}

// mayClaim reports why an address of which a peer warns is refused, if it is: only who has it may claim it.
func (m *Machine) mayClaim(p *pool.Pool, a netip.Addr, h *space.Holder) error {
	if !m.isInUse(a) {
		return nil
	}
	if h.Kind == space.Client && h.Ref != "" && m.members.Former.Awaits(a, h.Ref) || h.Kind == space.Unmarked && !m.inUseElsewhere(a) {
		return nil // an endpoint of this host that the engine asks for again may be who has it
	}
	return m.errWarned(p, a)
}

// errWarned refuses an address of which a peer warns.
func (m *Machine) errWarned(p *pool.Pool, a netip.Addr) error {
	next := "choose another address; if that host stays, run ringlet rejoin on it"
	if !m.inUseElsewhere(a) {
		next = "choose another address, or try again in ten minutes"
		if !m.engine.KnowsStart() {
			next = fmt.Sprintf("choose another address; if nothing uses it, run ringlet release %v on this host", a)
		}
	}
	return failf(ErrAddressInUse, "address %v in %s is in use by %s: %s", a, sentence.Pool(p.Pool), m.warnedText(a), next)
}
