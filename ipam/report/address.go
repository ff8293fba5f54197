package report

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Who tells what this peer knows of an address.
func (p *Picture) Who(a netip.Addr) (AddressStatus, error) {
	for i := range p.Pools {
		pool := &p.Pools[i]
		if !pool.CIDR.Contains(a.Unmap()) {
			continue
		}
		o, ok := addr.OffsetOf(pool.CIDR, a)
		if !ok {
			return AddressStatus{Address: a, Pool: pool.CIDR, State: "reserved", Kind: sentence.LastOf64}, nil
		}
		if rec := pool.Space.Lookup(o); rec.State != space.Unused && rec.Kind != space.Kept {
			return p.Address(pool, o, rec), nil
		}
		if r := pool.ReservationAt(o); r != nil {
			return p.reserved(pool, o, r), nil
		}
		s := AddressStatus{Address: a, Pool: pool.CIDR, State: "free"}
		if pool.Space.Mine(o) {
			s.Peer, s.State = string(p.Name), "ready"
			return s, nil
		}
		switch t, _ := pool.Ring.At(o); {
		case t.Owner == ring.Free:
		case p.State.Member(t.Owner) == nil:
			s.Peer, s.State = p.NameOf(t.Owner), "quarantined"
		default:
			s.Peer, s.State = p.NameOf(t.Owner), "elsewhere" // that peer can tell
		}
		return s, nil
	}
	return AddressStatus{}, sentence.Errorf(sentence.ErrPoolNotFound, "address %v is in no pool: ringlet pool ls lists the pools", a)
}

// Address shows an address of a pool, as a record says that it is, or was, held.
func (p *Picture) Address(pool *Pool, o addr.Offset, rec space.Record) AddressStatus {
	s := AddressStatus{
		Address: addr.Nth(pool.CIDR, o), Pool: pool.CIDR, Peer: string(p.Name), State: "held", Kind: rec.Kind.String(),
		Container: rec.Ref, Name: rec.Name, MAC: addr.MAC(rec.MAC).String(), Since: time.Unix(0, rec.Since).UTC(),
	}
	switch rec.Kind {
	case space.Gateway, space.Host, space.Stranger:
		s.State = rec.Kind.String()
	case space.Client:
		s.Name, s.Container = rec.Ref, ""
	case space.Container, space.Unmarked, space.Kept:
	}
	if rec.State == space.Freed {
		if s.State = "ready"; !rec.Rested(p.Now, p.Rest) {
			s.State = "resting"
		}
	}
	return s
}

// reserved shows an address that is reserved, and not held here. One that is reserved
// for a name may have gone to another peer, where a container of that name runs.
func (p *Picture) reserved(pool *Pool, o addr.Offset, r *chronicle.Reservation) AddressStatus {
	s := AddressStatus{Address: addr.Nth(pool.CIDR, o), Pool: pool.CIDR, State: "reserved", Kind: r.Kind.String(), Name: r.Note}
	if t, _ := pool.Ring.At(o); t.Owner != ring.Reserved && t.Owner != p.Self {
		s.Peer = p.NameOf(t.Owner)
	}
	return s
}
