package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// An address that is kept for a name belongs to nobody until a container of
// that name starts somewhere. The peer there borrows it (chronicle.Borrow) and
// hands it out. When the container goes, the address waits on that host for a
// while, held by nobody, so that no other container gets it and that one comes
// back to it without a decision; then it is given back.

// keptFor reports whether an address is kept for the holder: by a container's
// name or MAC, or by the name under which a client holds it.
func keptFor(r *chronicle.Reservation, h *space.Holder) bool {
	switch {
	case r.Kind != chronicle.KindKeptForName || r.Note == "":
		return false
	case h.Kind == space.Client:
		return r.Note == h.Ref
	}
	return h.Kind == space.Container && (r.Note == h.Name || MAC(h.MAC).Is(r.Note))
}

// keptForAnother reports whether an address is kept for somebody, and not for the holder.
func keptForAnother(r *chronicle.Reservation, h *space.Holder) bool {
	return r != nil && r.Kind == chronicle.KindKeptForName && !keptFor(r, h)
}

// keptIn returns the addresses of the pool that are kept for the holder, those first
// that nobody has.
func (m *Machine) keptIn(p *pool.Pool, h *space.Holder) (out []addr.Offset) {
	var had []addr.Offset
	for i := range p.Reserved {
		r := &p.Reserved[i]
		if r.Kind != chronicle.KindKeptForName || !keptFor(r, h) {
			continue
		}
		o := r.Range.Start
		t, _ := p.Ring.At(o)
		if kind, held := p.Space.Holds(o); held && kind != space.Kept || t.Owner != m.members.Self() && t.Owner != ring.Reserved {
			had = append(had, o)
			continue
		}
		out = append(out, o)
	}
	return append(out, had...)
}

// claimKept claims an address that is kept for the holder. Where it has all of them
// already, as a container does that is on two networks of the pool, it is to get any:
// then done is false.
func (m *Machine) claimKept(p *pool.Pool, n *Network, h *space.Holder, a *AddressGrant) (done bool, err error) {
	if !m.factsOf(p).KeepsNames {
		return false, nil
	}
	has := false
	for _, o := range m.keptIn(p, h) {
		if err = m.claim(p, n, addr.Nth(p.CIDR, o), h, a); err == nil || waits(err) {
			return true, err
		}
		rec := p.Space.Lookup(o)
		two := p.Here.Networks() > 1
		has = has || two && h.Name != "" && rec.State == space.Held && rec.Kind == h.Kind && rec.Name == h.Name
	}
	return err != nil && !has, err
}

// borrow makes an address this peer's: as obtain, or, with the reservation that
// keeps it for a name, from where that keeps it.
func (m *Machine) borrow(p *pool.Pool, o addr.Offset, r *chronicle.Reservation) error {
	if t, _ := p.Ring.At(o); r == nil || t.Owner != ring.Reserved {
		return m.obtain(p, o)
	}
	out, err := m.propose(chronicle.Borrow{Pool: p.Key, At: o})
	if err == nil && out[0].Refused != "" {
		err = m.waitForMajority() // it has changed hands just now
	}
	return err
}

// holdKept holds what is kept for names in this peer's ranges and held by nobody, so that it is not handed out to others.
func (m *Machine) holdKept() {
	for _, cp := range m.state.Pools {
		m.holdKeptIn(m.pools.of[cp.Key], addr.Whole(cp.CIDR))
	}
}

// holdKeptIn is holdKept for a range.
func (m *Machine) holdKeptIn(p *pool.Pool, in addr.Range) {
	if !m.factsOf(p).KeepsNames {
		return
	}
	for _, r := range p.ReservedIn(in) {
		if r.Kind != chronicle.KindKeptForName || !p.Ring.Owns(m.members.Self(), r.Range) {
			continue
		}
		h := space.Holder{Kind: space.Kept, Name: r.Note}
		if g, out := p.Space.Claim(r.Range.Start, &h, m.now, nil); out == space.Taken {
			m.saveGrant(p, &g, &h)
		}
	}
}

// keepNoMore frees what waits in the range for a name that it is not kept for
// any more.
func (m *Machine) keepNoMore(p *pool.Pool, in addr.Range) {
	if p == nil {
		return
	}
	var free []addr.Offset
	for o, rec := range p.Space.HeldIn(in) {
		if r := p.ReservationAt(o); rec.Kind == space.Kept && (r == nil || r.Kind != chronicle.KindKeptForName) {
			free = append(free, o)
		}
	}
	for _, o := range free {
		m.freeHolding(p, o)
		m.settleAt(p, addr.One(o))
	}
}

// closeKept gives back what has waited for its name long enough, as whoever
// has the name next may be on another host. A peer that is cut off keeps it.
func (m *Machine) closeKept(p *pool.Pool) {
	if !m.factsOf(p).KeepsNames || m.members.View().CutOff() {
		return
	}
	var actions []chronicle.Action
	for _, r := range p.Reserved {
		o := r.Range.Start
		rec := p.Space.Lookup(o)
		if r.Kind != chronicle.KindKeptForName || rec.State != space.Held || rec.Kind != space.Kept || !p.Space.Usable(o) {
			continue
		}
		if rec.Rested(m.now, m.cfg.Rest) || m.members.IsDraining() {
			actions = append(actions, chronicle.Close{Pool: p.Key, Range: r.Range})
		}
	}
	m.background(actions...)
}
