package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// maxActions is how many commands one slot takes of a reservation that is cut
// into pieces by what is held in it.
const maxActions = 500

// reserve keeps addresses back for an operator.
func (m serving) reserve(q *ReserveRequest) (Reserving, error) {
	if err := m.members.Ready(); err != nil {
		return Reserving{}, err
	}
	if err := q.Check(); err != nil {
		return Reserving{}, err
	}
	p, in, err := m.stretch(q.Pool, q.First, q.Last)
	if err != nil {
		return Reserving{}, err
	}
	if err := m.awaitLists(); err != nil {
		return Reserving{}, err
	}
	if m.ending(p, in) {
		return Reserving{}, m.waitForEarlier()
	}
	out := Reserving{Pool: p.CIDR, First: q.First, Last: q.Last, Kind: q.Kind.String(), Note: q.Note, Collisions: []Collision{}}
	if q.Kind == chronicle.KindKeptForName {
		err = m.keep(p, in.Start, q.Note)
	} else {
		var found []Collision
		found, err = m.exclude(p, in, q.Note)
		out.Collisions = append(out.Collisions, found...)
	}
	for _, r := range p.Reserved {
		if r.Kind == q.Kind {
			out.Addresses += uint64(r.Range.Intersect(in).Size())
		}
	}
	return out, err
}

// ending reports whether a command of this peer is under way that ends what is
// reserved in the range.
func (m *Machine) ending(p *pool.Pool, in addr.Range) bool {
	return m.opposes(func(a chronicle.Action) bool {
		u, ok := a.(chronicle.Unreserve)
		return ok && u.Pool == p.Key && u.Range.Overlaps(in)
	})
}

// beginning reports whether a command of this peer is under way that reserves
// some of the range.
func (m *Machine) beginning(p *pool.Pool, in addr.Range) bool {
	return m.opposes(func(a chronicle.Action) bool {
		r, ok := a.(chronicle.Reserve)
		return ok && r.Pool == p.Key && r.Range.Overlaps(in)
	})
}

// stretch returns the pool, and the range in it, that an operator means.
func (m *Machine) stretch(ref string, first, last netip.Addr) (*pool.Pool, addr.Range, error) {
	var p *pool.Pool
	if ref != "" {
		if p = m.poolRef(ref); p == nil {
			return nil, addr.Range{}, sentence.NoPool(ref)
		}
	} else if p = m.pools.At(first); p == nil {
		return nil, addr.Range{}, failf(ErrPoolNotFound, "address %v is in no pool: create the pool first with ringlet pool create or docker network create; ringlet pool ls lists the pools", first)
	}
	in, err := p.Stretch(first, last)
	return p, in, err
}

// keep keeps one address for a name. Whoever has the name may hold it.
func (m serving) keep(p *pool.Pool, o addr.Offset, name string) error {
	a := addr.Nth(p.CIDR, o)
	wanted := &chronicle.Reservation{Range: addr.One(o), Kind: chronicle.KindKeptForName, Note: name}
	if r := p.ReservationAt(o); r != nil {
		if r.Kind == wanted.Kind && r.Note == name {
			return m.affirm(p, wanted.Range, wanted.Kind)
		}
		return sentence.AddressTaken(p.Pool, a, r)
	}
	if rec := p.Space.Lookup(o); rec.State == space.Held && !pool.KeptFor(wanted, &rec.Holder) {
		return p.ErrHeld(a, rec.Holder, rec.Since)
	}
	if t, _ := p.Ring.At(o); t.Owner != m.members.Self() && t.Owner != ring.Free {
		answer, err := m.askOwner(p, o, wire.WantExact, 0)
		if errors.Is(err, errRefused) {
			err = failf(ErrAddressInUse, "address %v in %s is held by %s: to reserve it for that holder, run the command on that host; otherwise stop or free it there first, or choose another address", a, sentence.Pool(p.Pool), answer.Text)
		}
		return err
	}
	out, err := m.propose(chronicle.Reserve{Pool: p.Key, Reservation: *wanted})
	if err == nil && out[0].Refused != "" {
		err = m.waitForMajority() // likewise
	}
	return err
}

// exclude reserves all of a range that nobody holds, and tells who holds the
// rest. What is other peers' it has given to itself first.
func (m serving) exclude(p *pool.Pool, in addr.Range, note string) ([]Collision, error) {
	for range 4 {
		var actions []chronicle.Action
		var late error
		found := p.Collisions()
		for _, part := range p.PartsOf(in) {
			switch part.Owner {
			case ring.Reserved:
				found.AddReserved(part.Range)
			case m.members.Self():
				actions = found.Exclude(part.Range, note, actions)
			default:
				late = errors.Join(late, m.excludeTheirs(p, part, &found))
			}
		}
		if len(actions) == 0 {
			if late == nil {
				late = m.affirm(p, in, chronicle.KindExcluded)
			}
			return found.List, firstWait(late)
		}
		m.call.partly = late != nil || len(found.List) > 0 || len(actions) > maxActions
		if _, err := m.propose(actions[:min(len(actions), maxActions)]...); err != nil {
			return nil, err
		}
	}
	return nil, m.waitForMajority() // others take from the range at the same time
}

// affirm has a call wait, once, that finds that what it asks for in a range is
// reserved already: this peer may be cut off, and the pool another one by now. What it
// asks for once more is decided after all of which it does not know yet; as is what was
// decided for the call before. What else is reserved there, or beside, somebody may have
// ended meanwhile: it is not asked for.
func (m serving) affirm(p *pool.Pool, in addr.Range, kind chronicle.Kind) error {
	c := m.call
	if c.reserved.affirmed || slices.ContainsFunc(c.proposed, (*replog.Proposal).IsKnown) || m.members.View().Alone() {
		return nil
	}
	var actions []chronicle.Action
	for _, r := range p.Reserved {
		if r.Range = r.Range.Intersect(in); r.Kind == kind && !r.Range.Empty() && len(actions) < maxActions {
			actions = append(actions, chronicle.Reserve{Pool: p.Key, Reservation: r})
		}
	}
	if len(actions) == 0 {
		return nil // nothing is said to be reserved
	}
	_, err := m.propose(actions...)
	c.reserved.affirmed = err == nil
	return err
}

// firstWait returns the first of several errors that make a call wait, since
// only that can be told.
func firstWait(err error) error {
	if wait, ok := errors.AsType[*waitError](err); ok {
		return wait
	}
	return err
}

// excludeTheirs gets what another peer can spare of a piece, and learns who
// holds the rest. It returns what makes the call wait.
func (m serving) excludeTheirs(p *pool.Pool, of pool.Part, found *pool.Collisions) error {
	switch {
	case m.members.IsPredecessor(of.Owner):
		return m.waitForSuccession()
	case m.state.Member(of.Owner) == nil:
		found.Add(of.Range, m.quarantineText(of.Owner))
		return nil
	case !m.members.View().Live(of.Owner):
		found.Add(of.Range, fmt.Sprintf("is in a range of %s, which is unreachable: start or reconnect that host, and exclude it again", m.members.View().NameOf(of.Owner)))
		return nil
	}
	if _, err := m.ask(p, wire.WantSpace, of.Range, 0); !errors.Is(err, errRefused) {
		return err
	}
	for o := of.Start; o < of.End; o++ {
		who, known := m.call.reserved.heldBy[o]
		if !known {
			answer, err := m.ask(p, wire.WantExact, addr.One(o), 0)
			if !errors.Is(err, errRefused) {
				return err
			}
			if who = answer.Text; m.call.reserved.heldBy == nil {
				m.call.reserved.heldBy = map[addr.Offset]string{}
			}
			m.call.reserved.heldBy[o] = who
		}
		found.Add(addr.One(o), "is held by "+who)
	}
	return nil
}

// unreserve ends what an operator keeps back in a range.
func (m serving) unreserve(q *UnreserveRequest) (Reserving, error) {
	if err := m.members.Ready(); err != nil {
		return Reserving{}, err
	}
	if !q.Kind.Operated() {
		return Reserving{}, failf(ErrBadRequest, "a reservation as %v cannot be removed by hand", q.Kind)
	}
	out := Reserving{First: q.First, Last: q.Last, Kind: q.Kind.String(), Collisions: []Collision{}}
	if q.Pool == "" && m.pools.At(q.First) == nil && m.pools.At(q.Last) == nil {
		return out, nil // nothing is kept back where there is no pool
	}
	p, in, err := m.stretch(q.Pool, q.First, q.Last)
	if err != nil {
		return Reserving{}, err
	}
	if m.beginning(p, in) {
		return Reserving{}, m.waitForEarlier()
	}
	out.Pool = p.CIDR
	for range 4 {
		actions, n := p.Unreserving(in, q.Kind)
		m.call.reserved.freed = max(m.call.reserved.freed, n) // what there was when it was served first
		if len(actions) == 0 {
			out.Addresses = m.call.reserved.freed
			m.keepListed(p, in)
			return out, nil
		}
		if _, err := m.propose(actions[:min(len(actions), maxActions)]...); err != nil {
			return Reserving{}, err
		}
	}
	return Reserving{}, m.waitForMajority() // others do the same at the same time
}

// Reservations lists what is kept back in a pool, or in all if ref is empty.
func (m *Machine) Reservations(ref string) ([]ReservationStatus, error) {
	pools, err := m.poolsRef(ref)
	if err != nil {
		return nil, err
	}
	out := []ReservationStatus{}
	for _, p := range pools {
		for _, r := range p.Reserved {
			s := report.ReservationOf(p.Pool, &r)
			if t, _ := p.Ring.At(r.Range.Start); t.Owner != ring.Reserved && t.Owner != ring.Free {
				s.Peer = m.members.View().NameOf(t.Owner)
			}
			out = append(out, s)
		}
	}
	return slices.Clip(out), nil
}
