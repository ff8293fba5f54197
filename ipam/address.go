package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// requestAddress answers libnetwork's RequestAddress. As all that leads to a
// grant it fills in the answer in place, and takes what is large by reference:
// copies would cost more than the choice of an address.
func (m serving) requestAddress(q *AddressRequest, a *AddressGrant) (err error) {
	if q.Network.Outside(q.Address) {
		*a, err = m.networksOwn(q)
		return err
	}
	s := m.pools.ServedBefore(&q.Network)
	if s == nil {
		if err := q.Network.Check(); err != nil {
			return failf(ErrBadRequest, "%v", err)
		}
	}
	if unready := m.members.Ready(); unready != nil {
		*a, err = m.unready(q, unready)
		return err
	}
	if s == nil || !m.pools.IsCurrent(s) {
		if s, err = m.serve(&q.Network); err != nil {
			return err
		}
	}
	p := s.Pool
	switch {
	case q.Purpose == ForGateway:
		*a, err = m.gateway(p, q)
		return m.replayed(q, a, err)
	case q.Purpose == ForUnmarked && q.Address.IsValid():
		*a, err = m.unmarked(p, q, s.Key)
		return m.replayed(q, a, err)
	}
	if q.Purpose == ForContainer && !m.call.before {
		if m.engine.StartsContainers(q.Name != "") {
			m.pools.StickBy(q.Name != "")
		}
	}
	h := space.Holder{Kind: space.Container, Name: pool.Known(q.Name), MAC: q.MAC, Ref: q.ID}
	if q.Purpose == ForClient {
		h.Kind = space.Client
	} else {
		h.Network = s.Key
	}
	h.Key = pool.KeyOf(q.Network.Sticky, &h)
	if q.Address.IsValid() {
		return m.claim(p, &q.Network, q.Address, &h, a)
	}
	return m.allocate(p, &q.Network, s.Want, &h, a)
}

// networksOwn answers a request for an address of a wide IPv6 subnet that no pool has (Network.Outside): a gateway or an auxiliary
// address, which the network has for itself. No host hands out any there, so nothing has to be known of it, also not while the
// peer is not ready: an engine before 29 does not start without.
func (m serving) networksOwn(q *AddressRequest) (AddressGrant, error) {
	switch {
	case q.Purpose != ForGateway && q.Purpose != ForUnmarked:
		return AddressGrant{}, sentence.AddressOutside(q.Network.Pool, q.Address)
	case q.Purpose == ForUnmarked && m.bare():
		if err := m.refuseClaimOutside(q); err != nil {
			return AddressGrant{}, err
		}
	}
	m.engine.AskPart(q.Network.ID())
	return AddressGrant{Address: netip.PrefixFrom(q.Address, q.Network.Pool.Bits())}, nil
}

// allocate chooses an address in want, the network's part of the pool: the one
// that is kept for the holder, if there is one, else the former one of the
// holder, if that is free, by name and then by MAC, else one that was never used, else the one that has
// rested longest.
func (m serving) allocate(p *pool.Pool, n *Network, want addr.Range, h *space.Holder, a *AddressGrant) error {
	if err := m.awaitLists(); err != nil {
		return err
	}
	p.Space.Ahead(want, h.Key)
	trace := p.TraceOf(n.Sticky, h)
	if trace.IsHeld && p.MayReturn(want, trace.Held, h) {
		rec := p.Space.Lookup(trace.Held)
		if again, err := m.isBack(p, trace.Held, &rec, p.Retried(n, trace.Held, h)); err != nil {
			return err
		} else if again {
			*a = p.Renew(trace.Held, h)
			return nil
		}
	}
	if p.Facts().KeepsNames {
		if done, err := m.claimKept(p, n, h, a); done {
			return err
		}
	}
	if trace.IsFormer && p.MayReturn(want, trace.Former, h) {
		return m.take(p, trace.Former, h, a)
	}
	for {
		if p.TakeAny(want, h, m.cfg.Rest, a) {
			m.openAhead(p)
			return nil
		}
		opened, err := m.open(p, want, m.trade.Chunk(p.Space))
		if err == nil && !opened {
			err = m.spaceElsewhere(p, *n, want)
		}
		if err != nil {
			return err
		}
	}
}

// take hands out the address at o, which is free or waits for the holder.
func (m *Machine) take(p *pool.Pool, o addr.Offset, h *space.Holder, a *AddressGrant) error {
	err := p.Take(o, h, a)
	if err == nil {
		m.openAhead(p)
	}
	return err
}

// claim hands out one certain address (docker run --ip).
func (m serving) claim(p *pool.Pool, n *Network, want netip.Addr, h *space.Holder, a *AddressGrant) error {
	o, ok := addr.OffsetOf(p.CIDR, want)
	if !ok {
		return sentence.AddressOutside(p.CIDR, want)
	}
	r := p.ReservationAt(o)
	if r != nil && !pool.KeptFor(r, h) {
		return sentence.AddressReserved(p.Pool, want, r, *h)
	}
	if m.pools.IsInUse(want) {
		if err := m.mayClaim(p, want, h); err != nil {
			return err
		}
		if p.Space.Mine(o) {
			p.DismissStranger(o)
		}
	}
	if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind != space.Kept {
		if rec.Kind == space.Container && h.Kind == space.Container && m.engine.OnHost(want) { // which has got it beside that container
			return p.ErrHeld(want, space.Holder{Kind: space.Host}, rec.Since)
		}
		switch may, err := m.isBack(p, o, &rec, p.MayTakeOver(n, o, &rec, h, m.inTime())); {
		case err != nil:
			return err
		case !may:
			return sentence.ComposeRun(p.ErrHeld(want, rec.Holder, rec.Since), h.Name, rec.Name)
		case h.Kind == space.Client || p.Space.Usable(o):
			*a = p.Renew(o, h)
			return nil
		}
		return m.waitForMajority() // about what it is set aside for
	}
	if kind, kept := p.Here.Kept[o]; kept && r != nil {
		return sentence.AddressReservedTwice(p.Pool, want, r, kind)
	}
	if err := m.awaitLists(); err != nil {
		return err
	}
	if err := m.borrow(p, o, r); err != nil {
		return err
	}
	p.DismissWarned(o)
	return m.take(p, o, h, a)
}

// unmarked answers a request for a certain address that comes without
// options: an auxiliary address of a network that is being made, or, when the
// engine has started, an endpoint that it has. key is what records keep of the network.
func (m serving) unmarked(p *pool.Pool, q *AddressRequest, key uint32) (AddressGrant, error) {
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	if !ok {
		return AddressGrant{}, sentence.AddressOutside(p.CIDR, q.Address)
	}
	if m.bare() {
		return m.bareAddress(p, q, o, key)
	}
	return m.keptOrReplayed(p, q, o)
}

// keptOrReplayed answers such a request where none is a container's that starts.
func (m serving) keptOrReplayed(p *pool.Pool, q *AddressRequest, o addr.Offset) (a AddressGrant, err error) {
	m.engine.AskPart(q.Network.ID())
	net := m.engine.Network(q.Network.ID())
	if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind != space.Stranger && rec.Kind != space.Kept {
		// An address of a network that is being made is auxiliary, and not in
		// use by a container. One that is replayed is.
		if net != nil && net.Fresh() && rec.Kind != space.Unmarked && rec.Kind != space.Host && !m.lacks(rule.Unmarked) {
			return AddressGrant{}, p.ErrHeld(q.Address, rec.Holder, rec.Since)
		}
		// What the host has today it may lose while the network lives.
		if net == nil || !net.Fresh() || rec.Kind != space.Host {
			p.NoteAlive(o, rec)
			return p.Confirm(o, rec.Holder), nil
		}
	}
	r := p.ReservationAt(o)
	making := (net == nil || net.Fresh()) && !m.mayBeOlder()
	if kept := r != nil && r.Kind == chronicle.KindKeptForName; r != nil && !kept || making {
		return m.reserveAuxiliary(p, o)
	}
	// The network is older than this request, so this is no part of its
	// making: the engine has an endpoint there that this peer has lost. Of one
	// that is kept for a name nobody else can have had it.
	if err := m.borrow(p, o, r); err != nil {
		return AddressGrant{}, err
	}
	p.DismissStranger(o) // it was this endpoint that answered
	err = m.take(p, o, &space.Holder{Kind: space.Unmarked, Network: pool.NetworkKey(q.Network.ID())}, &a)
	return a, err
}

// reserveAuxiliary grants a network an auxiliary address.
func (m serving) reserveAuxiliary(p *pool.Pool, o addr.Offset) (AddressGrant, error) {
	a, err := m.reserveFor(p, o, chronicle.KindAuxiliary)
	if err == nil {
		p.NameAuxiliary(o)
	}
	return a, err
}

// open takes free space of the pool within want, up to size addresses, and
// reports whether there was any. A peer that drains takes none.
func (m serving) open(p *pool.Pool, want addr.Range, size addr.Count) (bool, error) {
	if m.members.IsDraining() {
		return false, nil
	}
	for _, t := range p.Ring.Within(want) {
		if t.Owner == ring.Free {
			out, err := m.propose(chronicle.Open{Pool: p.Key, Range: want, Size: size})
			return err == nil && out[0].Refused == "", err
		}
	}
	return false, nil
}

// obtain makes one address this peer's: it is its already, or nobody's, or
// the owner is asked for it.
func (m serving) obtain(p *pool.Pool, o addr.Offset) error {
	if p.Space.Mine(o) {
		if kind, held := p.Space.Holds(o); !p.Space.Usable(o) && (!held || kind == space.Kept) {
			return m.waitForMajority() // about what it is set aside for
		}
		return nil
	}
	if opened, err := m.open(p, addr.One(o), 1); err != nil || opened && p.Space.Mine(o) {
		return err
	}
	switch t, _ := p.Ring.At(o); {
	case t.Owner == ring.Free && m.members.IsDraining():
		return sentence.Draining(m.cfg.Name, p.Pool)
	case t.Owner == m.members.Self(), t.Owner == ring.Free:
		return m.waitForMajority() // it has changed hands just now
	}
	return m.fromOwner(p, o, wire.WantExact, 0)
}

// openAhead takes more space before it is needed.
func (m *Machine) openAhead(p *pool.Pool) {
	if chunk := m.trade.Ahead(p.Space); chunk > 0 {
		_, _ = m.unasked().open(p, addr.Whole(p.CIDR), chunk)
	}
}

// serve finds the pool of a network that can be served, and makes the pool if
// there is none: the pool ID says all that is needed, should this peer have
// lost it. What follows from the network is kept.
func (m serving) serve(n *Network) (*pool.Served, error) {
	p, err := m.joinPool(n.Pool, poolSpec{reserved: &PoolRequest{Gateway: n.Gateway, GatewayAddr: n.GatewayAddr}})
	if err != nil {
		return nil, err
	}
	m.keepGateway(p, n)
	return m.pools.Serve(p, n), nil
}

// isBack reports whether whoever asks for a held address comes back to it. The error makes the call wait until an inventory can
// tell.
func (m serving) isBack(p *pool.Pool, o addr.Offset, rec *space.Record, may pool.Return) (bool, error) {
	switch may {
	case pool.IsBack:
		return true, nil
	case pool.BackOnceTold:
		return true, m.awaitTold(p, o, rec)
	case pool.OtherOnceTold:
		return false, m.awaitTold(p, o, rec)
	case pool.Untold:
		return false, m.errUntold(p, o, *rec)
	case pool.IsOther:
	}
	return false, nil
}

// awaitTold makes a call wait for an inventory that was begun after it came, where one
// will come. The holder's name is the container's that asks now, and need not have been the
// holder's then: that one may have been renamed, and live. An engine has no other container
// take a name before the one that had it has started, and so is listed.
func (m serving) awaitTold(p *pool.Pool, o addr.Offset, rec *space.Record) error {
	if !m.engine.WillList() {
		return nil
	}
	c := m.call
	if c.doubted == 0 {
		c.doubted = m.engine.Stamp()
		m.note(Note{Kind: NoteDoubted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o)})
	}
	if m.engine.Knows(c.doubted) {
		return nil
	}
	return m.errUntold(p, o, *rec)
}

// releaseAddress answers libnetwork's ReleaseAddress.
func (m *Machine) releaseAddress(q *AddressRelease) {
	p := m.pools.Serving(&q.Network)
	if p == nil {
		m.pools.EndOwnWarning(q.Address)
		return
	}
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	if !ok {
		return
	}
	if p.Release(o, &q.Network) {
		m.leaveEmptied(p)
	}
}

// withdraw takes back a grant that was not delivered.
func (m *Machine) withdraw(q *Withdrawal) {
	if p := m.pools.Of(q.Ticket.Pool); p != nil && p.Withdraw(&q.Ticket) {
		m.leaveEmptied(p)
	}
}

// takeStranger keeps an address back for whatever answers for it, if it still is as it was granted.
func (m *Machine) takeStranger(q *Stranger) {
	if p := m.pools.Of(q.Ticket.Pool); p != nil && p.TakeStranger(&q.Ticket, q.MAC) {
		m.leaveEmptied(p)
	}
}

// leaveEmptied lets a pool go that was only kept for an address that was
// still held.
func (m *Machine) leaveEmptied(p *pool.Pool) {
	if p.Origin == chronicle.FromChoice && !p.IsBusy() && !p.Here.Has() || p.Here.Released() > 0 && !m.engine.WillList() {
		m.leaveUnused(p)
	}
}
