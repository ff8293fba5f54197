package ipam

import (
	"net/netip"
	"slices"
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
		// The engine lets go of an auxiliary address only with its network, or
		// it never was one: an endpoint that was replayed to a new database.
		// A network that was taken for a replay, or is removed once more, gives back
		// what is another's.
		m.background(chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
		return
	}
	if !hasEndpoint(p, o) {
		if _, held := p.space.Holds(o); !held && p.ReservationAt(o) == nil { // else it may be that of a network
			m.isLate(p, o)
		}
		return
	}
	if m.isEcho(p, o, q.Network.Space) || m.isLate(p, o) {
		// If the new holder is gone indeed, an inventory will tell.
		rec := p.space.Lookup(o)
		m.note(Note{Kind: NoteEcho, Pool: p.CIDR, Address: q.Address, Holder: m.holderText(rec.Holder, rec.Since)})
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

// lateRelease is how long after the holder of an address was found to be gone its release
// may come yet. The engine has taken it off its lists before, waits for the network driver,
// however long that takes, and tries for 15 seconds where the plugin is away.
const lateRelease = 10 * time.Minute

// owing is what is known of an address whose holders ended without a release. An engine
// brings one for each of them, once or never, and keeps nobody from asking for the address
// meanwhile: whose a release is that comes nobody can say.
type owing struct {
	at time.Time // the last of them ended
	n  int       // releases that may come yet
	// doubted is when a release came that was taken for that of one of them, and may have been
	// that of whoever has the address now. Lists that were begun later tell.
	doubted time.Time
}

func (m *Machine) owing(a netip.Addr, w owing) {
	if m.owed == nil {
		m.owed = map[netip.Addr]owing{}
	}
	m.owed[a] = w
}

// owe takes note that the holder of an address ends without a release. Where no list ever
// comes, nobody would tell whose one was that comes later.
func (m *Machine) owe(p *pool, o addr.Offset) {
	if !m.cfg.AwaitInventory {
		return
	}
	a := addr.Nth(p.CIDR, o)
	w := owing{at: m.now, n: 1}
	if before := m.owed[a]; m.owes(before) {
		w.n += before.n
	}
	m.owing(a, w)
	m.saveOwed(a, &w)
}

// oweUnknown takes note that an address is granted above a new database. The one that was lost
// may have had a holder of it whose release may come yet.
func (m *Machine) oweUnknown(p *pool, o addr.Offset) {
	a, w := addr.Nth(p.CIDR, o), owing{at: m.lostAt, n: 1}
	if _, known := m.owed[a]; !known && m.owes(w) {
		m.owing(a, w)
		m.saveOwed(a, &w)
	}
}

// owes reports whether a release may come late.
func (m *Machine) owes(w owing) bool { return w.n > 0 && m.now.Sub(m.sureSince(w.at)) < lateRelease }

// isLate reports whether a release of the address may be that of a container which had it
// before whoever has it now, if anybody has.
func (m *Machine) isLate(p *pool, o addr.Offset) bool {
	if len(m.owed) == 0 {
		return false
	}
	a := addr.Nth(p.CIDR, o)
	w := m.owed[a]
	if !m.owes(w) {
		return false
	}
	w.n--
	if hasEndpoint(p, o) {
		w.doubted = m.now
		forget(p.seen, o) // that the one which has it now was seen says nothing any more
	}
	m.owed[a] = w // at is the last one's: of which of them this was nobody knows
	m.saveOwed(a, &w)
	return true
}

// mayBeReleased reports whether the release of whoever holds the address at o may have been
// taken for that of a container which had it before. A list can tell.
func (m *Machine) mayBeReleased(p *pool, o addr.Offset) bool {
	return len(m.owed) > 0 && !m.owed[addr.Nth(p.CIDR, o)].doubted.IsZero() && m.sighted()
}

// doubtNobody takes note that the address has a holder whose release has not come.
func (m *Machine) doubtNobody(p *pool, o addr.Offset) {
	if len(m.owed) == 0 {
		return
	}
	a := addr.Nth(p.CIDR, o)
	if w, known := m.owed[a]; known {
		w.doubted = time.Time{}
		m.owed[a] = w
	}
}

// settleOwed takes note of what a list tells of releases that were doubted, and forgets
// those that come no more.
func (m *Machine) settleOwed(s *sight) {
	var over []netip.Addr
	for a, w := range m.owed {
		if !w.doubted.IsZero() && w.doubted.Before(s.begun) && !m.stillDoubted(a, s) {
			w.doubted = time.Time{}
			m.owed[a] = w
		}
		if w.doubted.IsZero() && m.now.Sub(m.sureSince(w.at)) >= lateRelease {
			over = append(over, a)
		}
	}
	slices.SortFunc(over, netip.Addr.Compare)
	for _, a := range over {
		delete(m.owed, a)
		m.saveOwed(a, &owing{})
	}
}

// stillDoubted reports whether an address is held, and the list has nobody who has it.
func (m *Machine) stillDoubted(a netip.Addr, s *sight) bool {
	p := m.poolAt(a)
	if p == nil {
		return false
	}
	o, _ := addr.OffsetOf(p.CIDR, a)
	_, lives := s.seen[p][o]
	return hasEndpoint(p, o) && !lives
}

// hasEndpoint reports whether an address is held by an endpoint of the engine.
func hasEndpoint(p *pool, o addr.Offset) bool {
	kind, held := p.space.Holds(o)
	return held && (kind == space.Container || kind == space.Unmarked)
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

// restamp takes what is remembered for released at that time: the clock has been set,
// and an echo may follow still.
func (r *releases) restamp(at int64) {
	r.begun = at
	for _, list := range [][]release{r.young, r.old} {
		for i := range list {
			list[i].at = at
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
	rec, changed := p.space.Withdraw(space.Grant{Offset: o, Record: space.Record{Seq: q.Ticket.Serial}, Before: q.Ticket.before})
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
	kept := f.Before.Kind == space.Kept
	if !kept {
		m.noteUse(NoteFreed, p, addr.Nth(p.CIDR, o), &f.Before)
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
