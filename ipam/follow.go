package ipam

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

const (
	// snapshotEvery is how many slots pass between two snapshots of the state.
	snapshotEvery = 1024
	// keepSlots is how many slots behind a snapshot are kept for peers that lag.
	keepSlots = 10_000
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
			m.forgotten = m.forgotten || a.Former == m.self
			if o.Command.Author == m.self {
				m.awaitListAnew()
				m.note(Note{Kind: NoteInherited, Holder: m.nameOf(a.Former)})
			}
		case chronicle.Forget:
			m.forgotten = m.forgotten || a.Peer == m.self
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

// hasLeft reports whether this peer has left for good. One that a late request has brought back into the roster, and that
// was evicted then, owns what it was given meanwhile, and asks to be admitted once more, to give that back.
func (m *Machine) hasLeft() bool { return m.left && (m.state.Slot == 0 || m.member() || m.departs()) }

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
		if g, gone := m.deleted[cp.CIDR]; gone { // its host may have networks there all the while, if it was given up
			p.told = g.told
		}
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
		m.settleStrays(p, r)
		m.holdHost(p, r)
		m.holdSeen(p, r)
		for o := range p.kept {
			p.toKeep = p.toKeep || r.Contains(o)
		}
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
// name space in which an address is held; Forget is the exception, and what is
// held then stays held, and is a conflict.
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
	err := p.space.Disown(r)
	if err == nil {
		return
	}
	if m.alone() {
		m.broken = fmt.Errorf("pool %v: %w", p.CIDR, err)
		return
	}
	m.noteStrays(p)
}

// noteStrays notes what is held here in space that is this peer's no more, since
// it was given up while it was away.
func (m *Machine) noteStrays(p *pool) {
	for o, rec := range m.strays(p) {
		why := "its host was forgotten, and another holder may have it"
		if m.outlived {
			why = "the database of its host is an old one, and another holder may have it"
		}
		d := m.disputeOf(addr.Nth(p.CIDR, o), rec.Holder, rec.Since, why)
		d.stray = true
		m.disagree(p, o, d)
	}
}

// strays yields what is held here in space that is this peer's no more. Of containers only
// those count that the engine has been seen to have since.
func (m *Machine) strays(p *pool) iter.Seq2[addr.Offset, space.Record] {
	return func(yield func(addr.Offset, space.Record) bool) {
		if p.space.Strays() == 0 {
			return
		}
		for o, rec := range p.held() {
			_, lives := p.seen[o]
			if !p.space.Mine(o) && (lives || !hasEndpoint(p, o) || !m.sighted()) && !yield(o, rec) {
				return
			}
		}
	}
}

// regain asks for the addresses of strays, which nobody may have got since: what is nobody's, or
// free on the host that owns it, is this peer's again, before it is handed out to somebody else.
// What the host itself has, or a device on its network, and the gateway of its networks make way for a
// reservation that was decided since, as they do in space of this peer: see yields.
func (m *Machine) regain(p *pool) {
	if m.ready() != nil {
		return
	}
	var want, kept []addr.Offset
	for o, rec := range m.strays(p) {
		switch {
		case holdable(p.ReservationAt(o)):
			want = append(want, o)
		case rec.Kind == space.Host || rec.Kind == space.Stranger, rec.Kind == space.Gateway && p.yields(o, rec, p.ReservationAt(o).Kind):
			kept = append(kept, o)
		}
	}
	for _, o := range kept {
		m.freeYielded(p, o)
	}
	for _, o := range want {
		_ = m.borrow(p, o, p.ReservationAt(o)) // it stays a conflict as long as that fails
	}
}

// regainAt is regain for one address that is held here, for a call that waits for it. The error says who has it.
func (m *Machine) regainAt(p *pool, o addr.Offset) error {
	if p.space.Mine(o) {
		return nil
	}
	r := p.ReservationAt(o)
	if !holdable(r) {
		return errKept(p, addr.Nth(p.CIDR, o), r)
	}
	return m.borrow(p, o, r)
}

// settleStrays forgets that what is held in a range which has just become this peer's was in
// space of somebody else.
func (m *Machine) settleStrays(p *pool, r addr.Range) {
	for k, d := range m.conflicts {
		if d.stray && k.pool == p.Key && r.Contains(k.at) {
			m.settleConflict(p, k.at)
		}
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

// gonePool is a pool that went since the last inventory, and what that tells of its networks.
type gonePool struct {
	serial uint64
	told
}

// dropPool forgets a pool that was deleted, and its records. It can have containers here
// only if this host was forgotten: the pool may be made anew, and what they have be this
// peer's again, so their engine is asked first, as for what a network keeps back that no list has had; and those that are
// gone by then may have their releases yet to come.
func (m *Machine) dropPool(p *pool) {
	if p.hasContainers() || m.hasUnlisted(p) {
		m.awaitListAnew()
	}
	if a := addr.Nth(p.CIDR, p.gateway); p.hasGateway && m.networksOf(p) > 0 && !m.onHost(a) {
		m.host = append(m.host, netip.PrefixFrom(a, p.CIDR.Bits())) // its bridge has it, until the interfaces are read again
	}
	for o := range p.space.Records(addr.Whole(p.CIDR)) {
		if hasEndpoint(p, o) {
			m.putInDoubt(p, o)
		}
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
	m.deleted[p.CIDR] = gonePool{m.stamp(), p.told}
	m.note(Note{Kind: NotePoolDeleted, Pool: p.CIDR})
}

// hasUnlisted reports whether the host has a network on the pool that the last list lacks: nobody knows what it keeps back
// once the pool is gone. A process that has had none yet asks for none: an engine that starts may have its containers wait for
// that, and list nothing before they are up.
func (m *Machine) hasUnlisted(p *pool) bool {
	if m.inventory.isZero() {
		return false
	}
	for _, n := range m.networks { // the same with all, in any order
		if n.Pool == p.CIDR && (n.asked.serial > m.inventory.serial || p.listed < m.networksOf(p)) {
			return true
		}
	}
	return false
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
