package pool

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// Collisions gathers what cannot be excluded in a pool, with neighbours of one reason in one.
type Collisions struct {
	pool *Pool
	List []call.Collision
}

// Collisions returns none yet.
func (p *Pool) Collisions() Collisions { return Collisions{pool: p} }

// Add adds a range.
func (c *Collisions) Add(r addr.Range, why string) {
	first, last := addr.Nth(c.pool.CIDR, r.Start), addr.Nth(c.pool.CIDR, r.End-1)
	if n := len(c.List); n > 0 && c.List[n-1].Why == why && c.List[n-1].Last.Next() == first {
		c.List[n-1].Last = last
		return
	}
	c.List = append(c.List, call.Collision{First: first, Last: last, Why: why})
}

// AddReserved adds those of a reserved piece that may end while it is to be excluded.
func (c *Collisions) AddReserved(in addr.Range) {
	for _, r := range c.pool.Reserved {
		if part := r.Range.Intersect(in); !part.Empty() && r.Kind != chronicle.KindExcluded && !r.Kind.Fixed() {
			c.Add(part, sentence.Reserved(&r))
		}
	}
}

// Exclude appends what reserves a piece that is free or this peer's, but for what is held there, or kept for a name that has it.
func (c *Collisions) Exclude(in addr.Range, note string, actions []chronicle.Action) []chronicle.Action {
	for _, r := range c.pool.Reserved {
		if r.Range.Overlaps(in) {
			actions = c.excludeFree(addr.Range{Start: in.Start, End: r.Range.Start}, note, actions)
			c.AddReserved(r.Range.Intersect(in))
			in.Start = r.Range.End
		}
	}
	return c.excludeFree(in, note, actions)
}

// excludeFree is Exclude where nothing is reserved.
func (c *Collisions) excludeFree(in addr.Range, note string, actions []chronicle.Action) []chronicle.Action {
	p, from := c.pool, in.Start
	upTo := func(end addr.Offset) {
		if r := (addr.Range{Start: from, End: end}); !r.Empty() {
			actions = append(actions, chronicle.Reserve{Pool: p.Key, Reservation: chronicle.Reservation{Range: r, Kind: chronicle.KindExcluded, Note: note}})
		}
		from = end + 1
	}
	for o, rec := range p.Space.HeldIn(in) {
		if p.Yields(o, rec, chronicle.KindExcluded) {
			continue
		}
		upTo(o)
		c.Add(addr.One(o), "is held by "+p.of.HolderText(rec.Holder, rec.Since))
	}
	upTo(in.End)
	return actions
}

// Unreserving returns what ends the reservations of that kind in a range, and how many addresses that frees. What they have
// outside of it stays reserved.
func (p *Pool) Unreserving(in addr.Range, kind chronicle.Kind) (actions []chronicle.Action, n uint64) {
	for _, r := range p.Reserved {
		if cut := r.Range.Intersect(in); r.Kind == kind && !cut.Empty() {
			n += uint64(cut.Size())
			actions = append(actions, chronicle.Unreserve{Pool: p.Key, Range: cut, Kind: kind})
		}
	}
	return actions, n
}

// Stretch returns the range from one address to another, or why an operator cannot mean it.
func (p *Pool) Stretch(first, last netip.Addr) (addr.Range, error) {
	start, ok := addr.OffsetOf(p.CIDR, first)
	if !ok {
		return addr.Range{}, sentence.AddressOutside(p.CIDR, first)
	}
	end, ok := addr.EndOf(p.CIDR, last)
	if !ok {
		return addr.Range{}, sentence.AddressOutside(p.CIDR, last)
	}
	if end <= start {
		return addr.Range{}, sentence.Errorf(sentence.ErrBadRequest, "%v is after %v: write the range the other way round", first, last)
	}
	return addr.Range{Start: start, End: end}, nil
}
