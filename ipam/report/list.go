package report

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Listing asks for some of the addresses that a peer can list, see
// [Picture.List].
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

// List lists the addresses of the picture's pools, in order: those held and those
// remembered on this peer, and those reserved one by one. With a holder it lists
// those that it holds here. Each address is as it is now. A caller that asks again
// for what follows sees each as it is then.
func (p *Picture) List(q Listing) Portion {
	l := lister{picture: p, query: q, out: Portion{Addresses: []AddressStatus{}}}
	for i := range p.Pools {
		pool := &p.Pools[i]
		if r, some := pool.behind(q.After); some && !l.pool(pool, r) {
			return l.out
		}
	}
	l.out.Next = netip.Addr{}
	return l.out
}

// lister makes a portion.
type lister struct {
	picture *Picture
	query   Listing
	visited int
	out     Portion
}

// pool lists a range of a pool, and reports whether there is room for more.
func (l *lister) pool(p *Pool, r addr.Range) bool {
	next := len(p.Reserved) // the first reservation that has not been visited
	if l.query.Holder == "" && !l.query.Held {
		next, _ = slices.BinarySearchFunc(p.Reserved, r.Start, startsAt)
	}
	reservedBefore := func(end addr.Offset) bool {
		for ; next < len(p.Reserved) && p.Reserved[next].Range.Start < end; next++ {
			l.reserved(p, next)
			if !l.room(p, p.Reserved[next].Range.Start) {
				return false
			}
		}
		return true
	}
	for o, rec := range p.Space.Records(r) {
		if !reservedBefore(o) {
			return false
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
	return reservedBefore(r.End)
}

// room counts what was visited, up to o, and reports whether there is room for more.
func (l *lister) room(p *Pool, o addr.Offset) bool {
	l.visited++
	l.out.Next = addr.Nth(p.CIDR, o)
	return l.query.Limit == 0 || l.visited < l.query.Limit
}

func (l *lister) record(p *Pool, o addr.Offset, rec space.Record) {
	id := l.query.Holder
	only := l.query.Held || id != ""
	if rec.Kind == space.Kept || only && rec.State != space.Held || id != "" && !Names(rec.Holder, id) {
		return
	}
	l.out.Addresses = append(l.out.Addresses, l.picture.Address(p, o, rec))
}

// reserved lists a reservation of one address that nobody holds.
func (l *lister) reserved(p *Pool, i int) {
	r := &p.Reserved[i]
	if rec := p.Space.Lookup(r.Range.Start); p.reservedAlone(i) && (rec.State != space.Held || rec.Kind == space.Kept) {
		l.out.Addresses = append(l.out.Addresses, l.picture.reserved(p, r.Range.Start, r))
	}
}

// Names reports whether a holder goes by an ID: a client's, a
// container's in full or as docker ps shows it, or a container's name.
func Names(h space.Holder, id string) bool {
	if h.Kind == space.Gateway || h.Kind == space.Host || h.Kind == space.Kept {
		return false
	}
	return h.Ref == id || h.Name == id || h.Kind != space.Client && len(id) == 12 && sentence.Ref(h.Ref) == id
}
