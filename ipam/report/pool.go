package report

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// PoolStatus counts the addresses of a pool. With ranges it also lists the ranges and shares of their owners.
func (p *Picture) PoolStatus(pool *Pool, ranges bool) PoolStatus {
	s := PoolStatus{
		Pool: pool.CIDR, Name: pool.Name, Size: uint64(pool.Ring.Size()),
		Chosen: pool.Origin == chronicle.FromChoice, Origin: pool.Origin.String(), Networks: pool.Networks, Gateway: pool.Gateway,
	}
	owned := map[peer.ID]addr.Count{}
	if ranges {
		s.Holders = make([]RangeStatus, 0, pool.Ring.Len()) // or some more, where reservations lie side by side
	}
	for r, t := range pool.Ring.All() {
		switch t.Owner {
		case ring.Free:
			s.Free += uint64(r.Size())
		case ring.Reserved:
			s.Reserved += uint64(r.Size())
		default:
			owned[t.Owner] += r.Size()
		}
		if !ranges {
			continue
		}
		for part := range pool.parts(r, t) {
			next := p.rangeStatus(pool, part, t)
			if last := len(s.Holders) - 1; last >= 0 && s.Holders[last].excludedAs(next) {
				s.Holders[last].End = next.End // what is excluded at once is reserved in pieces
				continue
			}
			s.Holders = append(s.Holders, next)
		}
	}
	waiting := pool.waiting(addr.Whole(pool.CIDR))
	s.Reserved += waiting
	s.HeldHere = uint64(pool.Space.Held()) - waiting
	s.RestingHere = uint64(pool.Space.Resting(p.Now, p.Rest))
	s.Mine = uint64(owned[p.Self] - min(owned[p.Self], pool.Space.Held()-pool.Space.Strays()))
	for _, id := range slices.SortedFunc(maps.Keys(owned), peer.ID.Compare) {
		share := p.share(pool, id, owned[id])
		if ranges {
			s.Shares = append(s.Shares, share)
		}
		switch {
		case id == p.Self: // all counts follow below, also where it owns nothing
		case p.State.Member(id) == nil:
			s.Quarantined += share.Owned
		default:
			s.Held += share.Held
			s.Resting += share.Resting
			s.Ready += share.Owned - share.Held - share.Resting
		}
	}
	s.Held += s.HeldHere - uint64(pool.Space.Strays()) // those lie in others' ranges, and are counted there
	s.Resting += s.RestingHere
	s.Ready += s.Mine - s.RestingHere
	return s
}

// share sums up what one peer has of the pool. Until another peer has announced what it holds, all that it owns counts as free.
func (p *Picture) share(pool *Pool, id peer.ID, owned addr.Count) ShareStatus {
	s := ShareStatus{Owner: p.textOf(id), Owned: uint64(owned)}
	if id == p.Self {
		s.Held = uint64(pool.Space.Held()-pool.Space.Strays()) - pool.waiting(addr.Whole(pool.CIDR))
		s.Resting, s.Announced = uint64(pool.Space.Resting(p.Now, p.Rest)), true
	} else if t, told := pool.Spare[id]; told {
		s.Held, s.Resting, s.Announced = uint64(owned-min(t.Free, owned)), uint64(min(t.Resting, t.Free, owned)), true
	}
	return s
}

// parts yields a range, and of a reserved one its reservations, each of which has a reason of its own.
func (p *Pool) parts(r addr.Range, t ring.Token) iter.Seq[addr.Range] {
	return func(yield func(addr.Range) bool) {
		if t.Owner != ring.Reserved {
			yield(r)
			return
		}
		for o := r.Start; o < r.End; {
			v := p.ReservationAt(o)
			if !yield(v.Range) {
				return
			}
			o = v.Range.End
		}
	}
}

func (p *Picture) rangeStatus(pool *Pool, r addr.Range, t ring.Token) RangeStatus {
	s := RangeStatus{Start: addr.Nth(pool.CIDR, r.Start), End: addr.Nth(pool.CIDR, r.End-1), Version: uint64(t.Version)}
	switch t.Owner {
	case ring.Free:
		s.Owner = "free"
	case ring.Reserved:
		v := pool.ReservationAt(r.Start)
		s.Owner, s.Kind, s.Note = "reserved", v.Kind.String(), v.Note
	case p.Self:
		s.Owner = p.textOf(t.Owner)
		s.Held = uint64(pool.Space.CountHeld(r)) - pool.waiting(r)
	default:
		s.Owner = p.textOf(t.Owner)
	}
	return s
}

// excludedAs reports whether the next range, in the same token, is excluded for the same reason.
func (s *RangeStatus) excludedAs(next RangeStatus) bool {
	return next.Kind == chronicle.KindExcluded.String() && s.Kind == next.Kind && s.Note == next.Note && s.End.Next() == next.Start
}

// waiting returns how many addresses of the range wait here for the containers that they are reserved for: nobody holds
// them, though the space does.
func (p *Pool) waiting(in addr.Range) (n uint64) {
	first, _ := slices.BinarySearchFunc(p.Reserved, in.Start, startsAt)
	for _, r := range p.Reserved[first:] {
		if r.Range.Start >= in.End {
			break
		}
		if r.Kind != chronicle.KindKeptForName {
			continue
		}
		if rec := p.Space.Lookup(r.Range.Start); rec.State == space.Held && rec.Kind == space.Kept {
			n++
		}
	}
	return n
}

// hasContainers reports whether an address of the pool is held by anything but the host and other devices.
func (p *Pool) hasContainers() bool {
	for _, kind := range p.Space.Kinds() {
		if !kind.OfHost() {
			return true
		}
	}
	return false
}

// reservedAlone reports whether a reservation is of one address, and no piece of more: what is excluded at once is reserved in
// pieces, as its owners give it up.
func (p *Pool) reservedAlone(i int) bool {
	follows := func(i int) bool {
		a, b := &p.Reserved[i-1], &p.Reserved[i]
		return a.Kind == chronicle.KindExcluded && b.Kind == a.Kind && b.Note == a.Note && a.Range.End == b.Range.Start
	}
	alone := p.Reserved[i].Range.Size() == 1
	for j := i; alone && j > 0 && follows(j); j-- {
		alone = p.Reserved[j-1].Range.Size() == 1
	}
	for j := i + 1; alone && j < len(p.Reserved) && follows(j); j++ {
		alone = p.Reserved[j].Range.Size() == 1
	}
	return alone
}

// behind returns what of the pool comes behind an address, all where that is the zero one; false where nothing does.
func (p *Pool) behind(a netip.Addr) (addr.Range, bool) {
	r := addr.Whole(p.CIDR)
	if o, ok := addr.OffsetOf(p.CIDR, a); ok {
		r.Start = o + 1
		return r, true
	}
	return r, !a.IsValid() || a.Compare(p.CIDR.Addr()) <= 0 // pools do not overlap
}

// rangeAt returns the range that has the address: of the ring, or a reservation.
func (p *Pool) rangeAt(o addr.Offset) (addr.Range, ring.Token) {
	t, r := p.Ring.At(o)
	if v := p.ReservationAt(o); v != nil && t.Owner == ring.Reserved {
		return v.Range, t
	}
	return r, t
}

// startsAt compares where a reservation begins with an offset.
func startsAt(r chronicle.Reservation, o addr.Offset) int { return cmp.Compare(r.Range.Start, o) }
