package chronicle

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// reserve returns the parts that were the author's; the rest was free.
func (s *State) reserve(author peer.ID, a Reserve) (own []addr.Range, refused string) {
	p, refused := s.poolFor(author, a.Pool)
	switch {
	case refused != "":
		return nil, refused
	case a.Kind == 0 || a.Kind.Fixed():
		return nil, "nothing can be reserved as that"
	case a.Kind == KindKeptForName && a.Range.Size() != 1:
		return nil, "one address at a time is kept for a name"
	case a.Kind.Shared() && len(p.Users) == 0:
		return nil, "no host has a network on it" // and none that goes would end it
	case !p.Ring.Consists(a.Range, func(o peer.ID) bool { return o == author || o == ring.Free }):
		return nil, "it is neither free nor its author's"
	}
	i, taken := p.reservationIn(a.Range)
	if taken {
		return nil, "some of it is reserved"
	}
	p.Reserved = slices.Insert(p.Reserved, i, a.Reservation)
	if a.Kind == KindKeptForName && p.Ring.Owns(author, a.Range) {
		return nil, "" // it stays with its owner
	}
	for r, t := range p.Ring.Within(a.Range) {
		if t.Owner == author {
			own = append(own, r)
		}
	}
	p.Ring.Assign(a.Range, ring.Reserved, ring.Version(s.Slot))
	return own, ""
}

func (s *State) unreserve(a Unreserve) (refused string) {
	p := s.Pool(a.Pool)
	if p == nil {
		return "there is no such pool"
	}
	i, ok := p.reservationIndex(a.Range.Start)
	if !ok || a.Range.Empty() || p.Reserved[i].Range.End < a.Range.End || p.Reserved[i].Kind != a.Kind || a.Kind.Fixed() {
		return "it is not reserved so"
	}
	p.Reserved = slices.Replace(p.Reserved, i, i+1, p.Reserved[i].without(a.Range)...)
	s.freeReserved(p, a.Range)
	return ""
}

// freeReserved makes a range free that is reserved no more, unless it was lent to a peer.
func (s *State) freeReserved(p *Pool, r addr.Range) {
	if p.Ring.Owns(ring.Reserved, r) {
		p.Ring.Assign(r, ring.Free, ring.Version(s.Slot))
	}
}

// freeShared ends the reservations of a pool that any network may share, once nobody has
// networks on it, and returns what was reserved so. Who makes a network says so before it
// is granted any of them.
func (s *State) freeShared(p *Pool) (freed []addr.Range) {
	if len(p.Users) > 0 {
		return nil
	}
	p.Reserved = slices.DeleteFunc(p.Reserved, func(r Reservation) bool {
		if !r.Kind.Shared() {
			return false
		}
		freed = append(freed, r.Range)
		s.freeReserved(p, r.Range)
		return true
	})
	return freed
}

// without returns what is left of a reservation beside a range in it.
func (r Reservation) without(cut addr.Range) (rest []Reservation) {
	for _, side := range [...]addr.Range{{Start: r.Range.Start, End: cut.Start}, {Start: cut.End, End: r.Range.End}} {
		if !side.Empty() {
			rest = append(rest, Reservation{side, r.Kind, r.Note})
		}
	}
	return rest
}

func (s *State) borrow(author peer.ID, a Borrow) (refused string) {
	p, refused := s.poolFor(author, a.Pool)
	if refused != "" {
		return refused
	}
	if r := p.ReservationAt(a.At); r == nil || r.Kind != KindKeptForName || !p.Ring.Owns(ring.Reserved, r.Range) {
		return "it is not kept for a name, or somebody has borrowed it"
	}
	p.Ring.Assign(addr.One(a.At), author, ring.Version(s.Slot))
	return ""
}

// assign makes a range somebody's. What is kept for a name in it is reserved
// again where it would be free.
func (s *State) assign(p *Pool, r addr.Range, to peer.ID) {
	p.Ring.Assign(r, to, ring.Version(s.Slot))
	if to != ring.Free {
		return
	}
	for _, v := range p.ReservedIn(r) {
		p.Ring.Assign(v.Range, ring.Reserved, ring.Version(s.Slot))
	}
}

// reservationIn returns the index at which a reservation of the range would
// stand, and whether there is one already that overlaps it.
func (p *Pool) reservationIn(r addr.Range) (int, bool) {
	i, taken := p.reservationIndex(r.Start)
	return i, taken || i < len(p.Reserved) && p.Reserved[i].Range.Start < r.End
}

// lent reports whether somebody has borrowed what a reservation keeps for a
// name.
func (p *Pool) lent(r Reservation) bool {
	if r.Kind != KindKeptForName || r.Range.Size() != 1 {
		return false
	}
	t, _ := p.Ring.At(r.Range.Start)
	return isPeer(t.Owner)
}
