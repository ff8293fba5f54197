package ipam

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// follow makes the pools of this peer follow one command that had effect.
func (m *Machine) follow(o chronicle.Outcome) {
	switch a := o.Command.Action.(type) {
	case chronicle.Found:
		m.saveContacts()
	case chronicle.CreatePool:
		if cp := m.state.Pool(o.Pool); cp != nil {
			p := m.addPool(cp)
			m.sightSoon(p, addr.Whole(p.CIDR))
			m.note(Note{Kind: NotePoolCreated, Pool: cp.CIDR})
		}
	case chronicle.Use:
		if p := m.pools[a.Pool]; p != nil {
			p.vacated = time.Time{} // it stays, whoever wanted it to go
			m.sightSoon(p, addr.Whole(p.CIDR))
		}
	case chronicle.DeletePool:
		if p := m.pools[a.Pool]; p != nil {
			m.dropPool(p)
		}
	case chronicle.Open:
		m.followRing(m.pools[a.Pool])
		m.noteMove(a.Pool, o.Range, ring.Free, o.Command.Author)
	case chronicle.Close:
		m.followRing(m.pools[a.Pool])
		m.noteMove(a.Pool, a.Range, o.Command.Author, ring.Free)
	case chronicle.Give:
		m.followRing(m.pools[a.Pool])
		m.noteMove(a.Pool, a.Range, o.Command.Author, a.To)
	case chronicle.Reserve:
		m.followRing(m.pools[a.Pool])
		m.noteMoved(a.Pool, a.Range, ring.Free, ring.Reserved)
	case chronicle.Unreserve:
		m.followRing(m.pools[a.Pool])
		m.noteMoved(a.Pool, a.Range, ring.Reserved, ring.Free)
		if o.Command.Author == m.self && a.Kind.Shared() {
			m.putInDoubt(m.pools[a.Pool], a.Range.Start)
		}
		m.keepNoMore(m.pools[a.Pool], a.Range)
		m.sightSoon(m.pools[a.Pool], a.Range)
	case chronicle.Unuse:
		m.followRing(m.pools[a.Pool])
		for _, r := range o.Freed {
			m.noteMoved(a.Pool, r, ring.Reserved, ring.Free)
			if o.Command.Author == m.self { // whose network releases it once more, if its removal was cut short
				m.putInDoubt(m.pools[a.Pool], r.Start)
			}
			m.sightSoon(m.pools[a.Pool], r)
		}
	case chronicle.Borrow:
		m.followRing(m.pools[a.Pool])
		m.noteMove(a.Pool, addr.One(a.At), ring.Reserved, o.Command.Author)
	case chronicle.Forget, chronicle.Inherit:
		switch a := a.(type) {
		case chronicle.Inherit:
			if o.Command.Author == m.self {
				m.awaitListAnew()
				m.note(Note{Kind: NoteInherited, Holder: m.nameOf(a.Former)})
			}
		case chronicle.Forget:
			m.notePeer(NoteForgotten, a.Peer)
		}
		for _, p := range m.sortedPools() {
			m.followRing(p)
			m.sightSoon(p, addr.Whole(p.CIDR))
		}
	case chronicle.Admit:
		for _, p := range m.pools {
			p.toldOnce = false // it has heard nothing yet
		}
		m.contact(a.ID).joined = m.now
		m.saveContact(a.ID, m.contact(a.ID))
		m.notePeer(NotePeerJoined, a.ID)
	case chronicle.Evict:
		delete(m.inbox, a.Peer) // it brings that again, once it is back: see route
		m.notePeer(NotePeerEvicted, a.Peer)
		m.followLeave(a.Peer)
	case chronicle.Retire:
		m.notePeer(NotePeerLeft, a.Peer)
		m.followLeave(a.Peer)
	}
}

// departs reports whether this peer, if it is in the roster no more, has left as it
// was to. One that was evicted while it still owned space, or had said that it uses a pool,
// comes back to give it up.
func (m *Machine) departs() bool {
	uses := func(p *chronicle.Pool) bool { return p.UsedBy(m.self) }
	return m.leaving && (m.forced || m.ownedBy(m.self) == 0 && !slices.ContainsFunc(m.state.Pools, uses))
}

// followLeave notes that this peer has left, if it was to.
func (m *Machine) followLeave(id peer.ID) {
	if id == m.self && m.departs() {
		m.left = true
		m.saveLeaving()
	}
}

// notePeer notes what became of another peer.
func (m *Machine) notePeer(kind NoteKind, id peer.ID) {
	if id != m.self {
		m.note(Note{Kind: kind, Holder: m.nameOf(id)})
	}
}

// addPool begins what this peer knows of a pool.
func (m *Machine) addPool(cp *chronicle.Pool) *pool {
	p := m.poolFor(cp)
	m.followRing(p)
	return p
}

// poolFor returns what this peer knows of a pool of the state, nothing yet if
// it has not been asked before.
func (m *Machine) poolFor(cp *chronicle.Pool) *pool {
	p := m.pools[cp.Key]
	if p == nil {
		p = &pool{Pool: cp, space: space.NewCounting(addr.Size(cp.CIDR), &m.serial), asked: m.perPool[cp.CIDR], told: told{listed: -1}}
		m.pools[cp.Key], m.inOrder = p, nil
	}
	return p
}

// followRing makes the space follow the ring: ranges that became this peer's
// can be handed out, others no more.
func (m *Machine) followRing(p *pool) {
	if p == nil {
		return
	}
	mine := slices.Collect(p.Ring.OwnedBy(m.self))
	for _, r := range subtract(p.mine, mine) {
		m.disown(p, r)
	}
	for _, r := range subtract(mine, p.mine) {
		p.space.Own(r)
		m.holdHost(p, r)
		m.holdSeen(p, r)
		m.holdWarned(p, r)
	}
	p.mine = mine
}

// holdSeen holds what the engine's last list has in a range that has just become this peer's, and was somebody else's to
// hold before: a container of this host uses it, and no other is to get it before the next list.
func (m *Machine) holdSeen(p *pool, r addr.Range) {
	if m.listing || len(p.seen) == 0 {
		return // what is being listed is taken in one by one
	}
	var seen []addr.Offset
	for o := range p.seen {
		if r.Contains(o) && p.ReservationAt(o) == nil {
			seen = append(seen, o)
		}
	}
	slices.Sort(seen)
	for _, o := range seen {
		h := space.Holder{Kind: space.Container, Ref: known(p.seen[o])}
		if g, out := p.space.Claim(o, &h, m.now, nil); out == space.Taken {
			if m.unlisted {
				m.noteLost()
			}
			if !m.lostAt.IsZero() {
				m.doubtGranted(p, o)
			}
			m.saveGrant(p, &g, &h)
			m.noteUse(NoteGranted, p, addr.Nth(p.CIDR, o), &h, g.Since)
			m.settleConflict(p, o)
		}
	}
}

// disown takes a range out of the space, and what was remembered of it out of
// the database. Commands that take space from this peer are its own and never
// name space in which an address is held: a peer whose space others give up does
// not follow (see follows).
func (m *Machine) disown(p *pool, r addr.Range) {
	m.yield(p, r)
	for o, rec := range p.space.Records(r) {
		if rec.State == space.Freed {
			m.forgetHolding(p, o)
			if m.sighted() && !m.inventory.knows(rec.Seq) {
				remember(&p.left, o, rec.Seq)
			}
		}
	}
	if err := p.space.Disown(r); err != nil {
		m.broken = fmt.Errorf("pool %v: %w", p.CIDR, err)
	}
}

// yield frees what makes way for a reservation that was decided, and what
// waited for its name in a range that is another's now.
func (m *Machine) yield(p *pool, r addr.Range) {
	var free []addr.Offset
	for o, rec := range p.space.HeldIn(r) {
		if v := p.ReservationAt(o); rec.Kind == space.Kept || v != nil && p.yields(o, rec, v.Kind) {
			free = append(free, o)
		}
	}
	for _, o := range free {
		m.freeYielded(p, o)
	}
}

// freeYielded frees what makes way.
func (m *Machine) freeYielded(p *pool, o addr.Offset) {
	if p.hasGateway && p.gateway == o {
		p.hasGateway = false
	}
	m.freeHolding(p, o)
}

// dropPool forgets a pool that was deleted, and what was remembered of it: no host has anything
// there, as the state says that none uses it.
func (m *Machine) dropPool(p *pool) {
	for o := range p.space.Records(addr.Whole(p.CIDR)) {
		m.forgetHolding(p, o)
	}
	for _, c := range m.contacts {
		delete(c.spare, p.Key)
	}
	for _, told := range []map[conflict]dispute{m.conflicts, m.disputed} {
		maps.DeleteFunc(told, func(k conflict, _ dispute) bool { return k.pool == p.Key })
	}
	delete(m.begged, p.Key)
	delete(m.pools, p.Key)
	m.inOrder = nil
	m.deleted[p.CIDR] = m.stamp()
	m.note(Note{Kind: NotePoolDeleted, Pool: p.CIDR})
}

// subtract returns the parts of a that lie in none of b. Both are in order,
// and neither has ranges that overlap.
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
