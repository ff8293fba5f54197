package ipam

import (
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// Where a network wants it (see [Probe]), the wire is asked about an address
// between its grant and the answer to whoever asked for it. What something else
// answers for is held by a stranger from then on, so that the holder asks
// again and gets another one. The core never waits for the wire: to it, an
// address that is asked about is one that was granted.

// strangerTime is how long an address is kept back for a stranger. Devices
// come and go, and no address may be lost for ever: then it is free again,
// rests, comes last in its turn, and is asked about anew.
const strangerTime = time.Hour

// takeStranger keeps an address back for whatever answers for it, if it still
// is as it was granted. One that was confirmed since, or that the engine has
// listed, is in use by a container.
func (m *Machine) takeStranger(q *Stranger) {
	p := m.pools.of[q.Ticket.Pool]
	if p == nil {
		return
	}
	o := q.Ticket.Offset
	rec := p.Space.Lookup(o)
	if rec.State != space.Held || rec.Seq != m.serialOf(&q.Ticket, &rec) || rec.Kind == space.Container && rec.Ref != "" {
		return
	}
	if rec.Kind == space.Gateway {
		p.HasGateway = false
	}
	m.forgetSight(p, o)
	rec, _ = p.Space.Renew(o, space.Holder{Kind: space.Stranger, MAC: q.MAC})
	m.saveRecord(p, o, &rec)
	m.watchStranger(p, o, time.Unix(0, rec.Since))
	m.note(Note{Kind: NoteStranger, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since), Use: useOf(&rec)})
	m.settleEmptied(p)
}

// watchStranger remembers that an address is kept back for a stranger since
// then.
func (m *Machine) watchStranger(p *pool.Pool, o addr.Offset, since time.Time) {
	if p.Strangers == nil {
		p.Strangers = map[addr.Offset]time.Time{}
	}
	p.Strangers[o] = since
	if until := since.Add(strangerTime); m.pools.strangersUntil.IsZero() || until.Before(m.pools.strangersUntil) {
		m.pools.strangersUntil = until
	}
}

// freeStrangers frees the addresses that have been kept back for long enough.
// One that seems to be kept back since far in the future has a time from a
// clock that was ahead, and nobody knows since when.
func (m *Machine) freeStrangers() {
	if m.pools.strangersUntil.IsZero() {
		return
	}
	if wait := m.pools.strangersUntil.Sub(m.now); wait > 0 && wait <= 2*strangerTime {
		return
	}
	m.pools.strangersUntil = time.Time{}
	for _, p := range m.sortedPools() {
		for _, o := range slices.Sorted(maps.Keys(p.Strangers)) {
			since := p.Strangers[o]
			if age := m.now.Sub(since); age < strangerTime && age > -strangerTime {
				m.watchStranger(p, o, since)
				continue
			}
			rec := p.Space.Lookup(o)
			m.freeHolding(p, o)
			m.note(Note{Kind: NoteStrangerEnd, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
			m.settleAt(p, addr.One(o))
			m.calls.changed = true
		}
	}
}

// dismissStranger frees an address that is kept back for a stranger, since it
// is known now who that was. Any other holder stays.
func (m *Machine) dismissStranger(p *pool.Pool, o addr.Offset) {
	m.dismissWarned(p, o)
	if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind == space.Stranger {
		m.freeHolding(p, o)
	}
}
