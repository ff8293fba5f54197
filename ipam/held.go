package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/space"
)

// Listing asks for some of the addresses that a peer can list, see
// [Machine.List].
type Listing struct {
	Pool   string     // by subnet or name; empty: all pools
	Holder string     // only what it holds: a holder's ID, a full container ID, or a container's name; empty: whatever is listed
	Held   bool       // only what is held
	After  netip.Addr // begin behind this address; the zero one: at the beginning
	// Limit is how many records and reservations are visited at most; 0: all. A
	// pair of both for one address counts once.
	Limit int
}

// Portion is a part of a listing.
type Portion struct {
	Addresses []AddressStatus
	Next      netip.Addr // [Listing.After] of the next portion; the zero one: there is none
}

// List lists the addresses of a pool, or of all, in order: those held and those
// remembered on this peer, and those reserved one by one. With a holder it lists
// those that it holds here. Each address is as it is now. A caller that asks again
// for what follows sees each as it is then.
func (m *Machine) List(now time.Time, q Listing) (Portion, error) {
	pools, err := m.poolsRef(q.Pool)
	if err != nil {
		return Portion{}, err
	}
	l := lister{machine: m.at(now), query: q, out: Portion{Addresses: []AddressStatus{}}}
	for _, p := range pools {
		r := addr.Whole(p.CIDR)
		if o, ok := addr.OffsetOf(p.CIDR, q.After); ok {
			r.Start = o + 1
		} else if q.After.IsValid() && q.After.Compare(p.CIDR.Addr()) > 0 {
			continue // pools do not overlap: all of this one comes before
		}
		if !l.pool(p, r) {
			return l.out, nil
		}
	}
	l.out.Next = netip.Addr{}
	return l.out, nil
}

// lister makes a portion.
type lister struct {
	machine *Machine
	query   Listing
	visited int
	out     Portion
}

// pool lists a range of a pool, and reports whether there is room for more.
func (l *lister) pool(p *pool, r addr.Range) bool {
	next := len(p.Reserved) // the first reservation that has not been visited
	if l.query.Holder == "" && !l.query.Held {
		next, _ = slices.BinarySearchFunc(p.Reserved, r.Start, func(v chronicle.Reservation, o addr.Offset) int { return cmp.Compare(v.Range.Start, o) })
	}
	for o, rec := range p.space.Records(r) {
		for ; next < len(p.Reserved) && p.Reserved[next].Range.Start < o; next++ {
			l.reserved(p, next)
			if !l.room(p, p.Reserved[next].Range.Start) {
				return false
			}
		}
		l.record(p, o, rec)
		if next < len(p.Reserved) && p.Reserved[next].Range.Start == o {
			l.reserved(p, next)
			next++
		}
		if !l.room(p, o) {
			return false
		}
	}
	for ; next < len(p.Reserved); next++ {
		l.reserved(p, next)
		if !l.room(p, p.Reserved[next].Range.Start) {
			return false
		}
	}
	return true
}

// room counts what was visited, up to o, and reports whether there is room for more.
func (l *lister) room(p *pool, o addr.Offset) bool {
	l.visited++
	l.out.Next = addr.Nth(p.CIDR, o)
	return l.query.Limit == 0 || l.visited < l.query.Limit
}

func (l *lister) record(p *pool, o addr.Offset, rec space.Record) {
	id := l.query.Holder
	only := l.query.Held || id != ""
	if rec.Kind == space.Kept || only && rec.State != space.Held || id != "" && !isHolder(rec.Holder, id) {
		return
	}
	l.out.Addresses = append(l.out.Addresses, l.machine.addressStatus(p, o, rec))
}

// reserved lists a reservation of one address that nobody holds.
func (l *lister) reserved(p *pool, i int) {
	r := &p.Reserved[i]
	if rec := p.space.Lookup(r.Range.Start); p.reservedAlone(i) && (rec.State != space.Held || rec.Kind == space.Kept) {
		l.out.Addresses = append(l.out.Addresses, l.machine.reservedStatus(p, r.Range.Start, r))
	}
}
