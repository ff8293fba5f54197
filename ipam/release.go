package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/space"
)

// releaseAddress answers libnetwork's ReleaseAddress. The gateway that this
// host has, reservations, and what clients hold are not released so.
func (m *Machine) releaseAddress(q *AddressRelease) {
	p := m.servedPool(&q.Network)
	if p == nil {
		return
	}
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	if !ok {
		return
	}
	if r := m.auxiliaryAt(p, o); r != nil && m.soleUser() && m.isOnly(p, &q.Network) {
		if m.isLate(p, o) {
			return // with the network it goes all the same
		}
		// The engine lets go of an auxiliary address only with its network, or
		// it never was one: an endpoint that was replayed to a new database.
		// A network that was taken for a replay, or is removed once more, gives back
		// what is another's.
		m.background(chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
		return
	}
	if !hasEndpoint(p, o) {
		kind, held := p.space.Holds(o)
		if gateway := held && kind == space.Gateway; !gateway && !sharesReservation(p.ReservationAt(o)) { // else it may be that of a network
			m.isLate(p, o)
		}
		forget(p.seen, o) // of what is not held here, as another host has it
		return
	}
	if m.isEcho(p, o, q.Network.Space) || m.isLate(p, o) || m.mayBeNetworks(p, o, &q.Network) {
		// If the new holder is gone indeed, an inventory will tell.
		rec := p.space.Lookup(o)
		m.note(Note{Kind: NoteEcho, Pool: p.CIDR, Address: q.Address, Holder: m.holderText(rec.Holder, rec.Since)})
		m.note(Note{Kind: NoteDoubted, Pool: p.CIDR, Address: q.Address})
		return
	}
	m.freeReleased(p, o)
	m.leaveToHost(p, o)
	m.settleEmptied(p)
}

// auxiliaryAt returns the reservation that keeps the address back for a network, or nil.
func (m *Machine) auxiliaryAt(p *pool, o addr.Offset) *chronicle.Reservation {
	if !m.factsOf(p).auxiliary {
		return nil
	}
	if r := p.ReservationAt(o); r != nil && r.Kind == chronicle.KindAuxiliary {
		return r
	}
	return nil
}

// isEcho reports whether a release of the held address at o repeats one that
// came before the address was granted to its present holder, and remembers
// this one. The two come from the two sides of a swarm, the node and its
// manager, and so from different address spaces.
func (m *Machine) isEcho(p *pool, o addr.Offset, from Space) bool {
	now := m.now.UnixNano()
	own, other := &p.released.local, &p.released.global
	if from == Global {
		own, other = other, own
	}
	if last, known := other.last(o); known {
		if since := now - last; since >= 0 && since < int64(m.cfg.Echo) {
			return true
		}
	}
	own.remember(o, now, m.cfg.Echo)
	return false
}

// releases are the last ones of one side: all of which an echo may follow, and some
// that are older. To remember one costs next to nothing, since that is done for
// each; to look for one is to pass all of them, and is done in a swarm alone. Times
// are nanoseconds since 1970.
type releases struct {
	young, old []release
	begun      int64 // of young
}

// release is the end of a holding.
type release struct {
	of addr.Offset
	at int64
}

// last returns when the address was last released, if that is remembered.
func (r *releases) last(o addr.Offset) (at int64, known bool) {
	if at, known = lastOf(r.young, o); !known {
		at, known = lastOf(r.old, o)
	}
	return at, known
}

func lastOf(list []release, o addr.Offset) (at int64, known bool) {
	for i := len(list) - 1; i >= 0; i-- { // an iterator would cost more than most lists, which are empty
		if r := &list[i]; r.of == o {
			return r.at, true
		}
	}
	return 0, false
}

// remember remembers a release, and forgets those of which no echo can follow
// any more.
func (r *releases) remember(o addr.Offset, now int64, echo time.Duration) {
	if age := now - r.begun; age >= int64(echo) || age < 0 {
		r.young, r.old = r.old[:0], r.young
		r.begun = now
	}
	r.young = append(r.young, release{o, now})
}

// restamp takes what is remembered since then for released at that time: an echo may follow still, as the clock
// has been set, or the process was frozen.
func (r *releases) restamp(since, at int64) {
	r.begun = at
	for _, list := range [][]release{r.young, r.old} {
		for i := range list {
			if list[i].at >= since {
				list[i].at = at
			}
		}
	}
}

// withdraw takes back a grant that was not delivered.
func (m *Machine) withdraw(q *Withdrawal) {
	p := m.pools[q.Ticket.Pool]
	if p == nil {
		return
	}
	o := q.Ticket.Offset
	held := p.space.Lookup(o)
	rec, changed := p.space.Withdraw(o, q.Ticket.Serial, &q.Ticket.before)
	if !changed {
		return // it was freed since
	}
	if held.Kind == space.Gateway {
		p.hasGateway = false
	}
	m.forgetSight(p, o)
	m.settleConflict(p, o)
	m.saveRecord(p, o, &rec)
	m.holdKeptAt(p, o)
	m.note(Note{Kind: NoteWithdrawn, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(held.Holder, held.Since), Use: useOf(&held)})
	m.leaveToHost(p, o) // of which is told behind that, or it would end with it
	m.settleEmptied(p)
}

// freeHolding frees the held address at o, of which no release has come.
func (m *Machine) freeHolding(p *pool, o addr.Offset) {
	if hasEndpoint(p, o) {
		m.owe(p, o)
	}
	m.freeReleased(p, o)
}

// freeReleased frees the held address at o; its record stays, so that its
// holder finds it again. One that is kept for a name waits for that name.
func (m *Machine) freeReleased(p *pool, o addr.Offset) {
	var f space.Freeing
	if !p.space.Free(o, m.now, &f) {
		return
	}
	kept := f.Kind == space.Kept
	if !kept {
		m.noteUse(NoteFreed, p, addr.Nth(p.CIDR, o), &f.Holder, f.HeldSince)
	}
	m.forgetSight(p, o)
	m.settleConflict(p, o)
	m.saveRecord(p, o, &f.Record)
	if !kept {
		m.holdKeptAt(p, o)
	}
}

// leaveToHost has the host hold an address that was just freed, if it has that itself: who
// held it beside the host is not to have it again, nor anybody else.
func (m *Machine) leaveToHost(p *pool, o addr.Offset) { m.holdHost(p, addr.One(o)) }

// forgetSight forgets what inventories, the host's interfaces and the wire said
// of the holder of the address.
func (m *Machine) forgetSight(p *pool, o addr.Offset) {
	forget(p.missing, o)
	forget(p.offHost, o)
	forget(p.seen, o)
	forget(p.strangers, o)
}

// forget is delete for a map that is empty most of the time, of which delete would
// learn in a call.
func forget[M ~map[K]V, K comparable, V any](m M, k K) {
	if len(m) > 0 {
		delete(m, k)
	}
}

// remember notes a time in a map that is empty most of the time.
func remember[K comparable](m *map[K]time.Time, k K, at time.Time) {
	if *m == nil {
		*m = map[K]time.Time{}
	}
	(*m)[k] = at
}

// settleEmptied lets a pool go that was only kept for an address that was
// still held.
func (m *Machine) settleEmptied(p *pool) {
	if m.factsOf(p).chosen && !p.busy() && m.networksOf(p) == 0 {
		m.settle(p)
	}
}
