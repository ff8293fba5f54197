package ipam

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// follow makes the pools of this peer follow one command that had effect.
func (m *Machine) follow(o chronicle.Outcome) {
	switch a := o.Command.Action.(type) {
	case chronicle.Found:
		m.members.Contacts.SaveRoster(m.members.View())
	case chronicle.CreatePool:
		if cp := m.state.Pool(o.Pool); cp != nil {
			p := m.addPool(cp)
			m.sightSoon(p, addr.Whole(p.CIDR))
			m.note(Note{Kind: NotePoolCreated, Pool: cp.CIDR})
		}
	case chronicle.Use:
		if p := m.pools.of[a.Pool]; p != nil {
			p.Vacated = time.Time{} // it stays, whoever wanted it to go
			m.sightSoon(p, addr.Whole(p.CIDR))
		}
	case chronicle.DeletePool:
		if p := m.pools.of[a.Pool]; p != nil {
			m.dropPool(p)
		}
	case chronicle.Open:
		m.followMove(a.Pool, o)
	case chronicle.Close:
		m.followMove(a.Pool, o)
	case chronicle.Give:
		m.followMove(a.Pool, o)
	case chronicle.Reserve:
		m.followMove(a.Pool, o)
	case chronicle.Borrow:
		m.followMove(a.Pool, o)
	case chronicle.Unreserve:
		m.followMove(a.Pool, o)
		if o.Command.Author == m.members.Self() && a.Kind.Shared() {
			m.doubts.Add(addr.Nth(m.pools.of[a.Pool].CIDR, a.Range.Start))
		}
		m.keepNoMore(m.pools.of[a.Pool], a.Range)
		m.sightSoon(m.pools.of[a.Pool], a.Range)
	case chronicle.Unuse:
		p := m.pools.of[a.Pool]
		m.followRing(p)
		for _, r := range o.Freed {
			m.trade.NoteFreed(p.Pool, r)
			if o.Command.Author == m.members.Self() { // whose network releases it once more, if its removal was cut short
				m.doubts.Add(addr.Nth(p.CIDR, r.Start))
			}
			m.sightSoon(p, r)
		}
	case chronicle.Forget, chronicle.Inherit:
		switch a := a.(type) {
		case chronicle.Inherit:
			if o.Command.Author == m.members.Self() {
				m.awaitListAnew()
				m.note(Note{Kind: NoteInherited, Holder: m.members.View().NameOf(a.Former)})
			}
		case chronicle.Forget:
			m.notePeer(NoteForgotten, a.Peer)
		}
		for _, p := range m.sortedPools() {
			m.followRing(p)
			m.sightSoon(p, addr.Whole(p.CIDR))
		}
	case chronicle.Lock:
		m.note(Note{Kind: NoteLocked, Holder: a.Name + " by " + sentence.Word(a.Holder) + " on " + m.members.View().NameOf(o.Command.Author)})
	case chronicle.Unlock:
		m.note(Note{Kind: NoteUnlocked, Holder: a.Name})
	case chronicle.Expire:
		m.note(Note{Kind: NoteLockExpired, Holder: a.Name})
	case chronicle.Admit:
		m.trade.Admitted()
		m.members.Contacts.Admit(m.members.View(), a.ID)
		m.notePeer(NotePeerJoined, a.ID)
	case chronicle.Evict:
		m.notePeer(NotePeerEvicted, a.Peer)
		m.followLeave(a.Peer)
	case chronicle.Retire:
		m.notePeer(NotePeerLeft, a.Peer)
		m.followLeave(a.Peer)
	}
}

// followMove has the space of a pool follow a range that has changed hands.
func (m *Machine) followMove(k chronicle.PoolKey, o chronicle.Outcome) {
	if p := m.pools.of[k]; p != nil {
		m.followRing(p)
		m.trade.NoteMove(p.Pool, o)
	}
}

// followLeave notes that this peer has left, if it was to.
func (m *Machine) followLeave(id peer.ID) {
	if id == m.members.Self() {
		m.members.Wish.TakeDismissal(m.members.View())
	}
}

// notePeer notes what became of another peer.
func (m *Machine) notePeer(kind NoteKind, id peer.ID) {
	if id != m.members.Self() {
		m.note(Note{Kind: kind, Holder: m.members.View().NameOf(id)})
	}
}

// addPool begins what this peer knows of a pool.
func (m *Machine) addPool(cp *chronicle.Pool) *pool.Pool {
	p := m.poolFor(cp)
	m.followRing(p)
	return p
}

// poolFor returns what this peer knows of a pool of the state, nothing yet if
// it has not been asked before.
func (m *Machine) poolFor(cp *chronicle.Pool) *pool.Pool {
	p := m.pools.of[cp.Key]
	if p == nil {
		p = &pool.Pool{Pool: cp, Space: space.NewCounting(addr.Size(cp.CIDR), m.engine.Counter()), Here: m.engine.On(cp.CIDR)}
		m.pools.of[cp.Key], m.pools.inOrder = p, nil
	}
	return p
}

// followRing makes the space follow the ring: ranges that became this peer's
// can be handed out, others no more.
func (m *Machine) followRing(p *pool.Pool) {
	if p == nil {
		return
	}
	mine := slices.Collect(p.Ring.OwnedBy(m.members.Self()))
	for _, r := range subtract(p.Mine, mine) {
		m.disown(p, r)
	}
	for _, r := range subtract(mine, p.Mine) {
		p.Space.Own(r)
		m.settleAt(p, r)
	}
	p.Mine = mine
}

// holdSeen holds what the engine's last list has in a range that has just become this peer's, and was somebody else's to
// hold before: a container of this host uses it, and no other is to get it before the next list.
func (m *Machine) holdSeen(p *pool.Pool, r addr.Range) {
	if m.list.running || len(p.Seen) == 0 {
		return // what is being listed is taken in one by one
	}
	seen := []addr.Offset{r.Start}
	if r.Size() > 1 {
		seen = slices.Sorted(maps.Keys(p.Seen))
	}
	for _, o := range seen {
		if _, listed := p.Seen[o]; !listed || !r.Contains(o) || p.ReservationAt(o) != nil {
			continue
		}
		h := space.Holder{Kind: space.Container, Ref: known(p.Seen[o])}
		if g, out := p.Space.Claim(o, &h, m.now, nil); out == space.Taken {
			if m.members.NewDB.IsUnlisted() {
				m.doubts.TakeLoss()
			}
			m.doubts.Grant(addr.Nth(p.CIDR, o))
			m.saveGrant(p, &g, &h)
			m.noteUse(NoteGranted, p, addr.Nth(p.CIDR, o), &h, g.Since)
			m.endOwnWarning(addr.Nth(p.CIDR, o))
			m.conflicts.End(place(p, o))
		}
	}
}

// disown takes a range out of the space, and what was remembered of it out of
// the database. Commands that take space from this peer are its own and never
// name space in which an address is held: a peer whose space others give up does
// not follow (see follows).
func (m *Machine) disown(p *pool.Pool, r addr.Range) {
	m.yield(p, r)
	for o, rec := range p.Space.Records(r) {
		if rec.State == space.Freed {
			m.forgetHolding(p, o)
			if m.engine.WillList() && !m.engine.Knows(rec.Seq) {
				remember(&p.Left, o, rec.Seq)
			}
		}
	}
	if err := p.Space.Disown(r); err != nil {
		m.log.Fail(fmt.Errorf("pool %v: %w", p.CIDR, err))
	}
}

// yield frees what makes way for a reservation that was decided, and what
// waited for its name in a range that is another's now.
func (m *Machine) yield(p *pool.Pool, r addr.Range) {
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
		m.freeHolding(p, o)
	}
}

// dropPool forgets a pool that was deleted, and what was remembered of it: no host has anything
// there, as the state says that none uses it.
func (m *Machine) dropPool(p *pool.Pool) {
	for o := range p.Space.Records(addr.Whole(p.CIDR)) {
		m.forgetHolding(p, o)
	}
	m.trade.DropPool(p.Key)
	m.conflicts.DropPool(p.Key)
	delete(m.pools.of, p.Key)
	m.pools.inOrder = nil
	m.engine.RemovePool(p.Here)
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
