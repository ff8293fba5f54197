package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
)

// releaseAddress answers libnetwork's ReleaseAddress. The gateway that this
// host has, reservations, and what clients hold are not released so.
func (m *Machine) releaseAddress(q *AddressRelease) {
	p := m.servedPool(&q.Network)
	if p == nil {
		m.endOwnWarning(q.Address)
		return
	}
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	if !ok {
		return
	}
	if !p.HasEndpoint(o) {
		m.endOwnWarning(q.Address)
		forget(p.Seen, o) // of what is not held here, as another host has it
		return
	}
	if m.isDoubtful(p, o, &q.Network) {
		// If the new holder is gone indeed, an inventory will tell.
		rec := p.Space.Lookup(o)
		m.note(Note{Kind: NoteLate, Pool: p.CIDR, Address: q.Address, Holder: m.holderText(rec.Holder, rec.Since)})
		m.note(Note{Kind: NoteDoubted, Pool: p.CIDR, Address: q.Address})
		return
	}
	m.freeReleased(p, o)
	m.settleAt(p, addr.One(o))
	m.settleEmptied(p)
}

// withdraw takes back a grant that was not delivered.
func (m *Machine) withdraw(q *Withdrawal) {
	p := m.pools.of[q.Ticket.Pool]
	if p == nil {
		return
	}
	o := q.Ticket.Offset
	held := p.Space.Lookup(o)
	rec, changed := p.Space.Withdraw(o, m.serialOf(&q.Ticket, &held), &q.Ticket.Before)
	if !changed {
		return // it was freed since
	}
	if held.Kind == space.Gateway {
		p.HasGateway = false
	}
	m.forgetSight(p, o)
	m.conflicts.End(place(p, o))
	m.saveRecord(p, o, &rec)
	m.note(Note{Kind: NoteWithdrawn, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(held.Holder, held.Since), Use: useOf(&held)})
	m.settleAt(p, addr.One(o)) // of which is told behind that, or it would end with it
	m.settleEmptied(p)
}

// serialOf returns the number that the record of an address has as long as nothing has confirmed the grant of the ticket (R52).
func (m *Machine) serialOf(t *Ticket, rec *space.Record) uint64 {
	if m.lacks(rule.Confirmed) {
		return rec.Seq
	}
	return t.Serial
}

// freeHolding frees the held address at o, of which no release has come. That of a gateway comes once more if the removal
// of its network was cut short.
func (m *Machine) freeHolding(p *pool.Pool, o addr.Offset) {
	if kind, _ := p.Space.Holds(o); p.HasEndpoint(o) || kind == space.Gateway {
		m.doubts.Add(addr.Nth(p.CIDR, o))
	}
	m.freeReleased(p, o)
}

// freeReleased frees the held address at o. Its record stays, so that its holder finds it again. [Machine.settleAt] follows, but
// where the address goes to somebody in the same step.
func (m *Machine) freeReleased(p *pool.Pool, o addr.Offset) {
	var f space.Freeing
	if !p.Space.Free(o, m.now, &f) {
		return
	}
	if f.Kind != space.Kept {
		m.noteUse(NoteFreed, p, addr.Nth(p.CIDR, o), &f.Holder, f.HeldSince)
	}
	m.forgetSight(p, o)
	m.conflicts.End(place(p, o))
	m.saveRecord(p, o, &f.Record)
}

// forgetSight forgets what inventories, the host's interfaces and the wire said
// of the holder of the address.
func (m *Machine) forgetSight(p *pool.Pool, o addr.Offset) {
	forget(p.Missing, o)
	forget(p.OffHost, o)
	forget(p.Seen, o)
	forget(p.Strangers, o)
}

// forget is delete for a map that is empty most of the time, of which delete would
// learn in a call.
func forget[M ~map[K]V, K comparable, V any](m M, k K) {
	if len(m) > 0 {
		delete(m, k)
	}
}

// remember notes when something happened in a map that is empty most of the time.
func remember[K comparable, V any](m *map[K]V, k K, at V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = at
}

// settleEmptied lets a pool go that was only kept for an address that was
// still held.
func (m *Machine) settleEmptied(p *pool.Pool) {
	if m.factsOf(p).IsChosen && !p.IsBusy() && !p.Here.Has() || p.Here.Released() > 0 && !m.engine.WillList() {
		m.settle(p)
	}
}
