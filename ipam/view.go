package ipam

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// poolStatus counts the addresses of a pool.
func (m *Machine) poolStatus(p *pool, now time.Time, ranges bool) PoolStatus {
	s := PoolStatus{
		Pool: p.CIDR, Name: p.Name, Size: uint64(p.Ring.Size()),
		Chosen: p.Origin == chronicle.FromChoice, Origin: originText(p.Origin), Networks: m.networksTold(p),
	}
	var mine addr.Count
	others := map[peer.ID]addr.Count{}
	if ranges {
		s.Holders = make([]RangeStatus, 0, p.Ring.Len()) // or some more, where reservations lie side by side
	}
	for r, t := range p.Ring.All() {
		n := uint64(r.Size())
		switch {
		case t.Owner == ring.Free:
			s.Free += n
		case t.Owner == ring.Reserved:
			s.Reserved += n
		case t.Owner == m.self:
			mine += r.Size()
		case m.state.Member(t.Owner) == nil:
			s.Quarantined += n
		default:
			others[t.Owner] += r.Size()
		}
		if !ranges {
			continue
		}
		for part := range p.parts(r, t) {
			s.Holders = append(s.Holders, m.rangeStatus(p, part, t))
		}
	}
	waiting := p.waitingKept(addr.Whole(p.CIDR))
	s.Reserved += waiting
	s.HeldHere = uint64(p.space.Held()) - waiting
	s.Held = s.HeldHere - uint64(p.space.Strays()) // those lie in others' ranges, and are counted there
	s.RestingHere = uint64(p.space.Resting(now, m.cfg.Rest))
	s.Resting = s.RestingHere
	s.Mine = uint64(mine - min(mine, p.space.Held()-p.space.Strays()))
	s.Ready = s.Mine - s.RestingHere
	for id, owned := range others {
		free, resting, _ := m.toldOf(p, id, owned)
		s.Held += uint64(owned - free)
		s.Resting += uint64(resting)
		s.Ready += uint64(free - resting)
	}
	if ranges {
		s.Shares = m.shares(p, now)
	}
	return s
}

// parts yields a range, and of a reserved one its reservations, each of which has
// a reason of its own.
func (p *pool) parts(r addr.Range, t ring.Token) iter.Seq[addr.Range] {
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

func (m *Machine) rangeStatus(p *pool, r addr.Range, t ring.Token) RangeStatus {
	s := RangeStatus{Start: addr.Nth(p.CIDR, r.Start), End: addr.Nth(p.CIDR, r.End-1), Version: uint64(t.Version)}
	switch t.Owner {
	case ring.Free:
		s.Owner = "free"
	case ring.Reserved:
		v := p.ReservationAt(r.Start)
		s.Owner, s.Kind, s.Note = "reserved", v.Kind.String(), v.Note
	case m.self:
		s.Owner = m.textOf(t.Owner)
		s.Held = uint64(p.space.CountHeld(r)) - p.waitingKept(r)
	default:
		s.Owner = m.textOf(t.Owner)
	}
	return s
}

// textOf returns the text of the ID of a peer that owns something: of which there are
// few, each named for many ranges.
func (m *Machine) textOf(id peer.ID) string {
	text, ok := m.ownerTexts[id]
	if !ok {
		text = id.String()
		m.ownerTexts[id] = text
	}
	return text
}

// Addresses lists the addresses of a pool, or of all if ref is empty, all at once, see [Machine.List].
func (m *Machine) Addresses(now time.Time, ref string) ([]AddressStatus, error) {
	all, err := m.List(now, Listing{Pool: ref})
	return all.Addresses, err
}

// reservedAlone reports whether a reservation is of one address, and no piece of more:
// what is excluded at once is reserved in pieces, as its owners give it up.
func (p *pool) reservedAlone(i int) bool {
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

// at returns the machine as a view sees it at that time: a copy, so that no view changes the machine. Nothing may step it.
func (m *Machine) at(now time.Time) *Machine {
	view := *m
	view.now = now
	return &view
}

// Who tells what this peer knows of an address.
func (m *Machine) Who(now time.Time, a netip.Addr) (AddressStatus, error) {
	m = m.at(now)
	for _, p := range m.sortedPools() {
		if !p.CIDR.Contains(a.Unmap()) {
			continue
		}
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			return AddressStatus{Address: a, Pool: p.CIDR, State: "reserved", Kind: lastOf64}, nil
		}
		if rec := p.space.Lookup(o); rec.State != space.Unused && rec.Kind != space.Kept {
			return m.addressStatus(p, o, rec), nil
		}
		if r := p.ReservationAt(o); r != nil {
			return m.reservedStatus(p, o, r), nil
		}
		s := AddressStatus{Address: a, Pool: p.CIDR, State: "free"}
		if p.space.Mine(o) {
			s.Peer, s.State = string(m.cfg.Name), "ready"
			return s, nil
		}
		switch t, _ := p.Ring.At(o); {
		case t.Owner == ring.Free:
		case m.state.Member(t.Owner) == nil:
			s.Peer, s.State = m.nameOf(t.Owner), "quarantined"
		default:
			s.Peer, s.State = m.nameOf(t.Owner), "elsewhere" // that peer can tell
		}
		return s, nil
	}
	return AddressStatus{}, failf(ErrPoolNotFound, "address %v is in no pool: ringlet pool ls lists the pools", a)
}

func (m *Machine) addressStatus(p *pool, o addr.Offset, rec space.Record) AddressStatus {
	s := AddressStatus{
		Address: addr.Nth(p.CIDR, o), Pool: p.CIDR, Peer: string(m.cfg.Name), State: "held", Kind: rec.Kind.String(),
		Container: rec.Ref, Name: rec.Name, MAC: MAC(rec.MAC).String(), Since: time.Unix(0, rec.Since).UTC(),
	}
	switch rec.Kind {
	case space.Gateway, space.Host, space.Stranger:
		s.State = rec.Kind.String()
	case space.Client:
		s.Name, s.Container = rec.Ref, ""
	case space.Container, space.Unmarked, space.Kept:
	}
	if rec.State == space.Freed {
		if s.State = "ready"; !rec.Rested(m.now, m.cfg.Rest) {
			s.State = "resting"
		}
	}
	return s
}

// reservedStatus tells of an address that is reserved, and not held here. One that is kept
// for a name may have gone to another peer, for whoever has the name there.
func (m *Machine) reservedStatus(p *pool, o addr.Offset, r *chronicle.Reservation) AddressStatus {
	s := AddressStatus{Address: addr.Nth(p.CIDR, o), Pool: p.CIDR, State: "reserved", Kind: r.Kind.String(), Name: r.Note}
	if t, _ := p.Ring.At(o); t.Owner != ring.Reserved && t.Owner != m.self {
		s.Peer = m.nameOf(t.Owner)
	}
	return s
}

// Check returns what contradicts the invariants, as far as this peer can see
// them. It is slow, and meant for tests and for operators.
func (m *Machine) Check(now time.Time) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if m.broken != nil {
		errs = append(errs, m.broken)
	}
	if err := m.state.Check(); err != nil {
		bad("I2: %w", err)
	}
	if len(m.pools) != len(m.state.Pools) {
		bad("this peer knows %d pools of %d", len(m.pools), len(m.state.Pools))
	}
	for _, p := range m.sortedPools() {
		if p.Pool != m.state.Pool(p.Key) {
			bad("pool %v is not the one of the state", p.CIDR)
		}
		if err := p.space.Check(); err != nil {
			bad("pool %v: %w", p.CIDR, err)
		}
		var mine addr.Count
		for r := range p.Ring.OwnedBy(m.self) {
			mine += r.Size()
		}
		if mine != p.space.Owned() {
			bad("pool %v: the ring gives this peer %d addresses, its space has %d", p.CIDR, mine, p.space.Owned())
		}
		for o, rec := range p.records() {
			// A peer that was given up, and has applied that as an earlier release did, is suspended.
			if t, _ := p.Ring.At(o); t.Owner != m.self && (rec.State != space.Held || !m.isSuspended()) {
				bad("I5: %v of pool %v is %v, and the ring does not give it to this peer", addr.Nth(p.CIDR, o), p.CIDR, rec.State)
			}
		}
		s := m.poolStatus(p, now, false)
		if sum := s.Held + s.Resting + s.Ready + s.Free + s.Reserved + s.Quarantined; sum != s.Size {
			bad("I8: pool %v: states add up to %d addresses of %d", p.CIDR, sum, s.Size)
		}
		if rec := p.space.Lookup(p.gateway); p.hasGateway && (rec.State != space.Held || rec.Kind != space.Gateway) {
			bad("pool %v: the gateway %v is not held as one", p.CIDR, addr.Nth(p.CIDR, p.gateway))
		}
	}
	return errs
}

// sortedPools returns the pools in order of their addresses. The list is not to be changed,
// and stays what it is when pools come or go.
func (m *Machine) sortedPools() []*pool {
	if m.inOrder == nil {
		m.inOrder = make([]*pool, 0, len(m.pools))
		for cp := range m.state.ByAddress() {
			if p := m.pools[cp.Key]; p != nil {
				m.inOrder = append(m.inOrder, p)
			}
		}
	}
	if len(m.inOrder) < len(m.pools) { // of a slot that is being followed, some are gone from the state
		m.inOrder = slices.Collect(maps.Values(m.pools))
		slices.SortFunc(m.inOrder, func(a, b *pool) int { return chronicle.SortedBy(a.Pool, b.Pool) })
	}
	return m.inOrder
}

func (m *Machine) sortedNetworks() []PoolID {
	out := make([]PoolID, 0, len(m.networks))
	for id := range m.networks {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b PoolID) int { return strings.Compare(string(a), string(b)) })
	return out
}

// Self returns this peer's ID, which it has from its first step on.
func (m *Machine) Self() peer.ID { return m.self }

// State returns what is agreed, as far as this peer knows. It must not be
// changed, and is valid until the next step.
func (m *Machine) State() *chronicle.State { return m.state }

// MayHandOut reports whether this peer would hand out an address, as far as it
// knows, or has handed it out: what no two peers may at the same time. What
// waits here for its name is held by nobody, and is not handed out once it is
// being given away. As long as it waits for lists (see AwaitsLists) it hands out
// nothing.
func (m *Machine) MayHandOut(cidr netip.Prefix, a netip.Addr) bool {
	p := m.poolOf(cidr)
	if p == nil {
		return false
	}
	o, ok := addr.OffsetOf(cidr, a)
	if !ok {
		return false
	}
	kind, held := p.space.Holds(o)
	return held && kind != space.Kept && !isWarned(p.space.Lookup(o)) || m.ready() == nil && !m.AwaitsLists() && p.space.Usable(o)
}

// AwaitsLists reports whether this peer chooses no address for now, since its
// database is new, and it is not known yet what containers have.
func (m *Machine) AwaitsLists() bool { return m.awaitList() != nil || m.awaitsOthers() }

// Identity is what tells one start of a peer from all others.
type Identity struct {
	ID    peer.ID
	Name  peer.Name
	Boot  peer.Boot
	Nonce uint64
	// Known are other peers of the cluster, with the addresses at which they
	// were last, as the carrier wrote them.
	Known map[peer.ID]string
}

// Identity returns who this peer is, from its first step on.
func (m *Machine) Identity() Identity {
	id := Identity{ID: m.self, Name: m.cfg.Name, Boot: m.boot, Nonce: m.nonce, Known: map[peer.ID]string{}}
	for other, c := range m.contacts {
		if c.addr != "" && !m.Gone(other) {
			id.Known[other] = c.addr
		}
	}
	return id
}

// Gone reports whether a peer is not of this one's cluster, as far as is known
// here, and nobody expects it back: it left, or its space was given up. One that
// was evicted may return.
func (m *Machine) Gone(id peer.ID) bool {
	if m.state.Slot == 0 || m.state.Member(id) != nil {
		return false
	}
	former := m.state.Gone(id)
	return former == nil || former.Forgotten
}
