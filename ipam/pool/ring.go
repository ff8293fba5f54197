package pool

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

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
		if v := p.ReservationAt(o); rec.Kind == space.Kept || v != nil && p.Yields(o, rec, v.Kind) {
			free = append(free, o)
		}
	}
	for _, o := range free {
		if p.HasGateway && p.Gateway == o {
			p.HasGateway = false
		}
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
