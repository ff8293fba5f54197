package pool

import (
	"maps"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// SettleAt has the strongest of those who are known to have an address hold it, wherever nobody does in a range (R64). It
// follows whenever an address was freed, and when a range becomes this peer's. A standing grant is never freed by it.
func (p *Pool) SettleAt(in addr.Range) {
	p.holdSeen(in)   // a container that the engine's last list has
	p.holdHost(in)   // the host itself
	p.holdKept(in)   // the name for which it is reserved
	p.HoldWarned(in) // a container on another host, which that one warned of
}

// holdSeen holds what the engine's last list has in a range that has just become this peer's, and was another's to hold
// before: a container of this host uses it, and no other is to get it before the next list.
func (p *Pool) holdSeen(r addr.Range) {
	if p.of.listing || len(p.Seen) == 0 {
		return // what is being listed is taken in one by one
	}
	seen := []addr.Offset{r.Start}
	if r.Size() > 1 {
		seen = slices.Sorted(maps.Keys(p.Seen))
	}
	for _, o := range seen {
		if _, listed := p.Seen[o]; !listed || !r.Contains(o) || p.ReservationAt(o) != nil {
			continue
		}
		h := space.Holder{Kind: space.Container, Ref: Known(p.Seen[o])}
		if g, held := p.hold(o, &h); held {
			if p.of.Database.IsUnlisted() {
				p.of.Doubts.TakeLoss()
			}
			a := addr.Nth(p.CIDR, o)
			p.of.Doubts.Grant(a)
			p.saveGrant(&g, &h)
			p.of.EndOwnWarning(a)
			p.of.Conflicts.End(p.Place(o))
		}
	}
}

// holdHost holds those of the host's addresses that lie in a range which has just become this peer's, or was freed, before a
// container can have them.
func (p *Pool) holdHost(r addr.Range) {
	for _, a := range p.of.Engine.Host() {
		o, ok := addr.OffsetOf(p.CIDR, a.Addr())
		if !ok || !r.Contains(o) || !IsHoldable(p.ReservationAt(o)) {
			continue
		}
		p.wakeKept(o)
		h := space.Holder{Kind: space.Host}
		if g, held := p.hold(o, &h); held {
			p.saveGrant(&g, &h)
		}
	}
}

// IsHoldable reports whether what somebody here has anyway, as the host itself, is to be held where it is kept back so, or
// not at all (nil). What is kept for a name a container would get otherwise; all else nobody gets.
func IsHoldable(r *chronicle.Reservation) bool {
	return r == nil || r.Kind == chronicle.KindKeptForName
}

// HoldKept holds what is kept for names in this peer's ranges and held by nobody, so that it is not handed out to others.
func (s *Pools) HoldKept() {
	for _, cp := range s.State.Pools {
		s.all[cp.Key].holdKept(addr.Whole(cp.CIDR))
	}
}

// holdKept is HoldKept for a range.
func (p *Pool) holdKept(in addr.Range) {
	if !p.Facts().KeepsNames {
		return
	}
	for _, r := range p.ReservedIn(in) {
		if r.Kind != chronicle.KindKeptForName || !p.Ring.Owns(p.of.Me.ID(), r.Range) {
			continue
		}
		h := space.Holder{Kind: space.Kept, Name: r.Note}
		if g, held := p.hold(r.Range.Start, &h); held {
			p.saveHeld(&g, &h)
		}
	}
}

// wakeKept frees an address that waits for its name, just before it is taken.
func (p *Pool) wakeKept(o addr.Offset) {
	if kind, held := p.Space.Holds(o); held && kind == space.Kept && p.Space.Usable(o) {
		p.Space.Free(o, p.of.Out.Now(), &space.Freeing{})
	}
}

// KeepNoMore frees what waits in the range for a name that it is not kept for any more.
func (p *Pool) KeepNoMore(in addr.Range) {
	var free []addr.Offset
	for o, rec := range p.Space.HeldIn(in) {
		if r := p.ReservationAt(o); rec.Kind == space.Kept && (r == nil || r.Kind != chronicle.KindKeptForName) {
			free = append(free, o)
		}
	}
	for _, o := range free {
		p.FreeAndSettle(o)
	}
}

// KeptFor reports whether an address is kept for the holder: by a container's name or MAC, or by the name under which a
// client holds it.
func KeptFor(r *chronicle.Reservation, h *space.Holder) bool {
	switch {
	case r.Kind != chronicle.KindKeptForName || r.Note == "":
		return false
	case h.Kind == space.Client:
		return r.Note == h.Ref
	}
	return h.Kind == space.Container && (r.Note == h.Name || addr.MAC(h.MAC).Is(r.Note))
}

// KeptIn returns the addresses of the pool that are kept for the holder, those first that nobody has.
func (p *Pool) KeptIn(h *space.Holder) (out []addr.Offset) {
	if !p.Facts().KeepsNames {
		return nil
	}
	var had []addr.Offset
	for i := range p.Reserved {
		r := &p.Reserved[i]
		if r.Kind != chronicle.KindKeptForName || !KeptFor(r, h) {
			continue
		}
		o := r.Range.Start
		t, _ := p.Ring.At(o)
		if kind, held := p.Space.Holds(o); held && kind != space.Kept || t.Owner != p.of.Me.ID() && t.Owner != ring.Reserved {
			had = append(had, o)
			continue
		}
		out = append(out, o)
	}
	return append(out, had...)
}
