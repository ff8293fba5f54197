package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/space"
)

// Where engines give endpoints no MAC (Config.NoMAC), the request of a container has no options on
// engines before 29. With an address, as docker run --ip makes it, it looks like two others: that for
// an auxiliary address of a network in the making, and that for an endpoint which the engine asks for
// again when it starts. An endpoint has what it holds already, a network shares what others keep back,
// and a container gets what nobody has: so to take one for another gives an address to two containers,
// or refuses an engine that starts what it has. This is what tells them apart:
//
//   - An engine asks for a network's pool before it asks for anything on the network, when it makes
//     the network and when it starts. Where it has not since it, or this process, started, nothing
//     is asked for again; and a network whose pool it asked for long ago is not in the making.
//   - An engine that starts asks for each address once for each network, before it starts any container.
//     It answers no question meanwhile.
//   - It lists a network that is made, and none in the making.

// meaning is what a request without options is for.
type meaning byte

const (
	meansReplay    meaning = iota // what the engine has
	meansAuxiliary                // of a network in the making
	meansClaim                    // of a container that starts
	meansEither                   // one of the latter two
)

// bare reports whether a container's request may come without options. An engine that sends names
// sends one with each.
func (m *Machine) bare() bool { return m.cfg.NoMAC && m.cfg.AwaitInventory && !m.named }

// mayBeContainers reports whether what is held by nobody knows whom may be a container's that has just started
// (meansEither), and not what an engine that starts above a new database has, or what a list is about to tell.
func (m *Machine) mayBeContainers(rec *space.Record) bool {
	return rec.Kind == space.Unmarked && m.bare() && (!m.replaying || !m.unlisted) && !m.listing
}

// noteAsked notes that the engine asks for the pool of a network, maybe again.
func (m *Machine) noteAsked(q *PoolRequest) {
	if !m.bare() || !m.replaying || !q.Pool.IsValid() {
		return
	}
	n, err := q.network(q.Pool)
	if err != nil {
		return
	}
	if m.asks == nil {
		m.asks = map[PoolID]uint64{}
	}
	net := m.networks[n.ID()]
	asked, known := m.asks[n.ID()]
	if twin := net != nil && net.count > 1 && m.askedBefore(net); twin || known && asked == 0 {
		m.asks[n.ID()] = 0 // what is on an equal network may have been asked for before this process started
		return
	}
	m.lastAsk++
	m.asks[n.ID()] = m.lastAsk
}

// askedBefore reports whether an engine that starts may have asked for a network, and for what is on it, before
// this process started.
func (m *Machine) askedBefore(n *network) bool {
	since := m.sureBy(n.asked.at, m.setBefore)
	earlier := since.Before(m.startedAt) || !since.Equal(n.asked.at)
	return m.asks[n.ID()] == 0 && earlier && m.startedAt.Before(since.Add(makeTime))
}

// askedBeforeOn is askedBefore for the networks on a pool.
func (m *Machine) askedBeforeOn(p *pool) bool {
	for _, n := range m.networks {
		if n.Pool == p.CIDR && m.askedBefore(n) {
			return true
		}
	}
	return false
}

// forgetReplays forgets what an engine has asked for again that starts once more.
func (m *Machine) forgetReplays() {
	m.named = false
	clear(m.asks)
	if m.cfg.NoMAC {
		for _, p := range m.pools {
			p.replayed = nil
		}
	}
}

// bareAddress answers a request without options where containers make such, too.
func (m *Machine) bareAddress(p *pool, q *AddressRequest, o addr.Offset, key uint32) (a AddressGrant, err error) {
	what, err := m.means(p, q)
	if err != nil {
		return AddressGrant{}, err
	}
	h := space.Holder{Kind: space.Container, Network: key}
	switch r := p.ReservationAt(o); {
	case what == meansReplay:
		if err := m.mayReplay(p, q, o); err != nil {
			return AddressGrant{}, err
		}
		if a, err = m.keptOrReplayed(p, q, o); err == nil {
			m.noteReplayed(p, o, a.Ticket.IsZero())
		}
		return a, err
	case what == meansAuxiliary:
		return m.auxiliary(p, q, o)
	case what == meansEither && sharesReservation(r):
		return AddressGrant{}, errEither(p, q.Address, r)
	case what == meansEither:
		if rec := p.space.Lookup(o); rec.State == space.Held && rec.Kind != space.Kept {
			return AddressGrant{}, m.errHeld(p, q.Address, rec.Holder, rec.Since) // also where that one is gone
		}
		// It is held, which is right for both: a list has it described, or reserved.
		h.Kind = space.Unmarked
	}
	return a, m.claim(p, &q.Network, q.Address, &h, &a)
}

// replayUnready is bareAddress while nothing can be handed out, and why says why: what the engine has
// already it is granted.
func (m *Machine) replayUnready(q *AddressRequest, a *AddressGrant, why error) error {
	p := m.poolOf(q.Network.Pool)
	if p == nil || !m.mayBeReplay(q) {
		if m.holdsUp() {
			why = settled(why)
		}
		return why
	}
	if !m.waitedEnough() {
		return m.awaitMeaning(p, q)
	}
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	if ok {
		if err := m.mayReplay(p, q, o); err != nil {
			return err
		}
	}
	rec := p.space.Lookup(o)
	unknown := ok && m.check != nil && rec.State == space.Held && rec.Kind == space.Container
	if unknown || ok && m.isSuspended() && hasEndpoint(p, o) && !p.shows(o) {
		// An engine goes on that is refused what an endpoint has, and a container that starts is not to have what may be another's by now.
		if m.holdsUp() {
			m.noteAskedAgain(p, o)
			why = settled(why)
		}
		return why
	}
	var err error
	if *a, err = m.standingFor(q, why); err == nil {
		m.noteReplayed(p, o, true)
	} else if m.holdsUp() {
		err = settled(err)
	}
	return err
}

// means returns what a request without options is for. The error makes it wait for what tells.
func (m *Machine) means(p *pool, q *AddressRequest) (meaning, error) {
	if m.mayBeReplay(q) {
		if !m.waitedEnough() {
			return 0, m.awaitMeaning(p, q)
		}
		return meansReplay, nil
	}
	net, c := m.networks[q.Network.ID()], m.current
	switch all := p.asked; {
	case net != nil && !m.inTheMaking(net, m.now):
		return meansClaim, nil
	case net != nil && m.inventory.knows(net.asked.serial) && p.listed >= all:
		return meansClaim, nil // it is listed with all others
	case c.doubted == 0 || !m.inventory.knows(c.doubted):
	case p.listed == 0:
		return meansAuxiliary, nil
	case p.listed >= all:
		return meansClaim, nil
	default:
		return meansEither, nil
	}
	switch {
	case net != nil && !net.fresh && m.waitedEnough():
		return meansClaim, nil // it is no new one, and the engine goes on starting
	case m.blind:
		return meansEither, nil
	}
	return 0, m.awaitMeaning(p, q)
}

// mayBeReplay reports whether the engine may have the address already, and ask for it again since it
// starts: it has asked for the network's pool since, or just before this process started, and the network
// is none that the host did not have before, as far as this peer knows.
func (m *Machine) mayBeReplay(q *AddressRequest) bool {
	id := q.Network.ID()
	net := m.networks[id]
	isNew := net != nil && net.fresh && !m.unlisted
	if !m.replaying || isNew || m.asks[id] == 0 && (net == nil || !m.inTheMaking(net, m.now)) {
		m.current.fresh = true // whatever is asked for while it waits
	}
	return !m.current.fresh
}

// waitedEnough reports whether no list is to be waited for any more by what an engine may ask for
// that starts: it answers no question, or is not to be held up for longer.
func (m *Machine) waitedEnough() bool {
	return m.blind || !m.inTime() || m.now.Sub(m.greeted.at) >= replayWait
}

// awaitMeaning makes a call wait for a list that was begun after it came.
func (m *Machine) awaitMeaning(p *pool, q *AddressRequest) error {
	if c := m.current; c.doubted == 0 {
		c.doubted = m.stamp()
		m.note(Note{Kind: NoteUnclear, Pool: p.CIDR, Address: q.Address})
	}
	return m.errUnclear(p.Pool, q.Address)
}

// mayReplay reports why an address is not that of an endpoint or a network which the engine asks for
// again: somebody else has it, or it was asked for before. A network keeps back what another one does,
// but nothing that a container has; and it asks for that before the engine turns to the next one.
func (m *Machine) mayReplay(p *pool, q *AddressRequest, o addr.Offset) error {
	rec, r := p.space.Lookup(o), p.ReservationAt(o)
	switch held := rec.State == space.Held && rec.Kind != space.Kept; {
	case held && m.holdsAgainst(p, q, o, &rec):
		m.noteAskedAgain(p, o) // the engine goes on with it whatever it is answered
		return m.errHeld(p, q.Address, rec.Holder, rec.Since)
	case !held && r != nil && m.keptAgainst(p, q, o, r):
		m.noteAskedAgain(p, o)
		return errReserved(p, q.Address, r, space.Holder{Kind: space.Container})
	}
	return nil
}

// holdsAgainst reports whether an address is held by another one than who may ask for it again. What was asked for
// before this process started is not known; an engine goes on that is refused the address of an endpoint.
func (m *Machine) holdsAgainst(p *pool, q *AddressRequest, o addr.Offset, rec *space.Record) bool {
	asked := p.replayed[o]
	switch rec.Kind {
	case space.Host, space.Stranger: // which only a new database takes for what a network or an endpoint has
		return asked || m.everListed()
	case space.Container, space.Unmarked:
		elsewhere := rec.Network != 0 && rec.Network != networkKey(q.Network.ID())
		return asked || elsewhere || m.asks[q.Network.ID()] == 0 || m.askedBeforeOn(p)
	case space.Gateway, space.Client, space.Kept:
	}
	return true
}

// keptAgainst reports whether a reserved address is kept back for others than the network that may ask for it again.
func (m *Machine) keptAgainst(p *pool, q *AddressRequest, o addr.Offset, r *chronicle.Reservation) bool {
	if !r.Kind.Shared() { // of what is kept for a name nobody else can have had it, as far as a new database knows
		return r.Kind != chronicle.KindKeptForName || m.everListed()
	}
	asked := m.asks[q.Network.ID()]
	inTurn := asked != 0 && asked == m.lastAsk && !m.askedBeforeOn(p)
	return p.replayed[o] || !inTurn || m.isGateway(p, &q.Network, o) || p.surveyed && !p.keepsAuxiliary(o)
}

// keepsAuxiliary reports whether a network of this host keeps the address back as auxiliary, by the last
// list, or by what the engine has asked for since.
func (p *pool) keepsAuxiliary(o addr.Offset) bool {
	_, named := p.named[o]
	return named || p.kept[o] == chronicle.KindAuxiliary
}

// isGateway reports whether the address is the gateway of a network by its options, this one or another of this host:
// the engine has that without asking.
func (m *Machine) isGateway(p *pool, n *Network, o addr.Offset) bool {
	is := func(n *Network) bool {
		g, shares := gatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
		return n.Pool == p.CIDR && shares && g == o
	}
	for _, net := range m.networks {
		if is(&net.Network) {
			return true
		}
	}
	return is(n)
}

// noteGateway notes that the engine has asked for the gateway of a network, which no container gets then.
func (m *Machine) noteGateway(p *pool, a netip.Addr) {
	if p == nil {
		return
	}
	if o, ok := addr.OffsetOf(p.CIDR, a); ok && m.replaying && m.bare() {
		m.noteAskedAgain(p, o)
	}
}

// noteAskedAgain notes that the engine has asked for an address since it started: it does so once.
func (m *Machine) noteAskedAgain(p *pool, o addr.Offset) {
	if p.replayed == nil {
		p.replayed = map[addr.Offset]bool{}
	}
	p.replayed[o] = true
}

// noteReplayed notes that the engine has asked for an address again. One that was held is so from now on, so
// that earlier lists say nothing of it.
func (m *Machine) noteReplayed(p *pool, o addr.Offset, held bool) {
	m.noteAskedAgain(p, o)
	// It may be a container that starts with the engine, and that no list shows yet.
	if !held || !hasEndpoint(p, o) {
		return
	}
	forget(p.missing, o)
	if h := p.space.Lookup(o).Holder; p.space.Usable(o) {
		h.Ref = "" // which is of one that a list has shown
		m.grantAnew(p, o, &h)
	}
}

// auxiliary reserves an auxiliary address of a network in the making. What the host has today it may
// lose while the network lives.
func (m *Machine) auxiliary(p *pool, q *AddressRequest, o addr.Offset) (AddressGrant, error) {
	m.stillMade(q.Network)
	if rec := p.space.Lookup(o); rec.State == space.Held && rec.Kind != space.Stranger && rec.Kind != space.Kept && rec.Kind != space.Host {
		return AddressGrant{}, m.errHeld(p, q.Address, rec.Holder, rec.Since)
	}
	return m.reserveAuxiliary(p, q, o)
}
