package pool

import (
	"fmt"
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
	if len(p.Seen) > 0 && !p.of.listing { // what is being listed is taken in one by one
		p.holdSeen(in) // a container that the engine's last list has
	}
	if len(p.of.Engine.Host()) > 0 {
		p.holdHost(in) // the host itself
	}
	if p.Facts().KeepsNames {
		p.holdKept(in) // the name for which it is reserved
	}
	p.HoldWarned(in) // a container on another host, which that one warned of
}

// holdSeen holds what the engine's last list has in a range that has just become this peer's, and was another's to hold
// before: a container of this host uses it, and no other is to get it before the next list.
func (p *Pool) holdSeen(r addr.Range) {
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

// IsHoldable reports whether an address that this host has anyway is to be held, where that reservation keeps it back, or none
// does (nil). What is kept for a name a container would get otherwise. All else nobody gets.
func IsHoldable(r *chronicle.Reservation) bool {
	return r == nil || r.Kind == chronicle.KindKeptForName
}

// HoldKept holds what is kept for names in this peer's ranges and held by nobody, so that it is not handed out to others.
func (s *Pools) HoldKept() {
	for _, cp := range s.State.Pools {
		if p := s.all[cp.Key]; p.Facts().KeepsNames {
			p.holdKept(addr.Whole(cp.CIDR))
		}
	}
}

// holdKept is HoldKept for a range.
func (p *Pool) holdKept(in addr.Range) {
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
		p.freeAndSettle(o)
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
	var had []addr.Offset
	for i := range p.Reserved {
		r := &p.Reserved[i]
		if !KeptFor(r, h) {
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

// FollowRing makes the space follow the ring: ranges that became this peer's can be handed out, others no more. The error is
// a defect.
func (p *Pool) FollowRing() (err error) {
	mine := slices.Collect(p.Ring.OwnedBy(p.of.Me.ID()))
	for _, r := range subtract(p.Mine, mine) {
		if e := p.disown(r); err == nil {
			err = e
		}
	}
	for _, r := range subtract(mine, p.Mine) {
		p.Space.Own(r)
		p.SettleAt(r)
	}
	p.Mine = mine
	return err
}

// disown takes a range out of the space, and what was remembered of it out of the database. Commands that take space from
// this peer are its own and never name space in which an address is held: a peer whose space others give up does not follow.
func (p *Pool) disown(r addr.Range) error {
	p.makeWay(r)
	for o, rec := range p.Space.Records(r) {
		if rec.State == space.Freed {
			p.forgetRecord(o)
			if p.of.Engine.WillList() && !p.of.Engine.Knows(rec.Seq) {
				remember(&p.Left, o, rec.Seq)
			}
		}
	}
	if err := p.Space.Disown(r); err != nil {
		return fmt.Errorf("pool %v: %w", p.CIDR, err)
	}
	return nil
}

// makeWay frees what makes way for a reservation that was decided, and what waited for its name in a range that is another's
// now.
func (p *Pool) makeWay(r addr.Range) {
	var free []addr.Offset
	for o, rec := range p.Space.HeldIn(r) {
		if v := p.ReservationAt(o); rec.Kind == space.Kept || v != nil && Yields(rec, v.Kind) {
			free = append(free, o)
		}
	}
	for _, o := range free {
		p.Free(o)
	}
}

// subtract returns the parts of a that lie in none of b. Both are in order, and neither has ranges that overlap.
func subtract(a, b []addr.Range) []addr.Range {
	var out []addr.Range
	for _, r := range a {
		for len(b) > 0 && b[0].End <= r.Start {
			b = b[1:]
		}
		for i := 0; i < len(b) && b[i].Start < r.End; i++ {
			if r.Start < b[i].Start {
				out = append(out, addr.Range{Start: r.Start, End: b[i].Start})
			}
			r.Start = b[i].End
		}
		if !r.Empty() {
			out = append(out, r)
		}
	}
	return out
}
