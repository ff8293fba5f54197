package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// follow makes the pools of this peer follow one command that had effect.
func (m *Machine) follow(o chronicle.Outcome) {
	m.members.Follow(o)
	switch a := o.Command.Action.(type) {
	case chronicle.CreatePool:
		if cp := m.state.Pool(o.Pool); cp != nil {
			p := m.pools.For(cp)
			m.followRing(p)
			m.pools.LookSoon(p, addr.Whole(p.CIDR))
			m.note(Note{Kind: NotePoolCreated, Pool: cp.CIDR})
		}
	case chronicle.Use:
		if p := m.pools.Of(a.Pool); p != nil {
			p.Vacated = time.Time{} // it stays, whoever wanted it to go
			m.pools.LookSoon(p, addr.Whole(p.CIDR))
		}
	case chronicle.DeletePool:
		if p := m.pools.Of(a.Pool); p != nil {
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
			m.doubts.Add(addr.Nth(m.pools.Of(a.Pool).CIDR, a.Range.Start))
		}
		if p := m.pools.Of(a.Pool); p != nil {
			p.KeepNoMore(a.Range)
			m.pools.LookSoon(p, a.Range)
		}
	case chronicle.Unuse:
		m.followUnuse(m.pools.Of(a.Pool), o)
	case chronicle.Forget, chronicle.Inherit:
		if _, inherits := a.(chronicle.Inherit); inherits && o.Command.Author == m.members.Self() {
			m.awaitListAnew()
		}
		for _, p := range m.pools.Sorted() {
			m.followRing(p)
			m.pools.LookSoon(p, addr.Whole(p.CIDR))
		}
	case chronicle.Lock:
		m.note(Note{Kind: NoteLocked, Holder: a.Name + " by " + sentence.Word(a.Holder) + " on " + m.members.View().NameOf(o.Command.Author)})
	case chronicle.Unlock:
		m.note(Note{Kind: NoteUnlocked, Holder: a.Name})
	case chronicle.Expire:
		m.note(Note{Kind: NoteLockExpired, Holder: a.Name})
	case chronicle.Admit:
		m.trade.Admitted()
	}
}

// followMove has the space of a pool follow a range that has changed hands.
func (m *Machine) followMove(k chronicle.PoolKey, o chronicle.Outcome) {
	if p := m.pools.Of(k); p != nil {
		m.followRing(p)
		m.trade.NoteMove(p.Pool, o)
	}
}

// followUnuse has the space of a pool follow what went with the last network on it.
func (m *Machine) followUnuse(p *pool.Pool, o chronicle.Outcome) {
	m.followRing(p)
	for _, r := range o.Freed {
		m.trade.NoteFreed(p.Pool, r)
		if o.Command.Author == m.members.Self() { // whose network releases it once more, if its removal was cut short
			m.doubts.Add(addr.Nth(p.CIDR, r.Start))
		}
		m.pools.LookSoon(p, r)
	}
}

// followRing has the space of a pool follow its ring.
func (m *Machine) followRing(p *pool.Pool) {
	if err := p.FollowRing(); err != nil {
		m.log.Fail(err)
	}
}

// dropPool forgets a pool that was deleted.
func (m *Machine) dropPool(p *pool.Pool) {
	m.trade.DropPool(p.Key)
	m.pools.Drop(p)
}
