package ipam

import (
	"maps"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// gateway answers a request for a network's gateway.
func (m serving) gateway(p *pool.Pool, q *AddressRequest) (g AddressGrant, err error) {
	m.engine.AskPart(q.Network.ID())
	if q.Address.IsValid() {
		o, ok := addr.OffsetOf(p.CIDR, q.Address)
		if !ok {
			return AddressGrant{}, sentence.AddressOutside(p.CIDR, q.Address)
		}
		if p.HasGateway && p.Gateway == o || p.AdoptGateway(o) {
			return p.Confirm(o, pool.GatewayHolder()), nil
		}
		if q.Network.Gateway == GatewayHost && !p.HasGateway && m.mayBeOlder() && p.IsOwn(o) {
			p.DismissStranger(o)
			h := pool.GatewayHolder()
			err = m.take(p, o, &h, &g)
			return g, err
		}
		return m.reserveFor(p, o, chronicle.KindGateway)
	}
	if m.engine.Network(q.Network.ID()) == nil && m.mayReplay() {
		// Its pool was granted as that of a network which the engine has: of those it names the gateway.
		return AddressGrant{}, failf(ErrNotReady, "ringlet on %s took the new network on %s for an old one, because the engine was starting: create it again", m.cfg.Name, sentence.Pool(p.Pool))
	}
	if o, ok := q.Network.SharedGateway(); ok {
		return m.reserveFor(p, o, chronicle.KindGateway)
	}
	if p.FindGateway() {
		return p.Confirm(p.Gateway, pool.GatewayHolder()), nil
	}
	h, want := pool.GatewayHolder(), addr.RangeOf(p.CIDR, q.Network.Range)
	if o, ok := p.HighestFree(want, !m.members.IsDraining()); ok && q.Network.Gateway == GatewayNone {
		err = m.takeHighest(p, o, &h, &g)
	} else {
		err = m.allocate(p, &q.Network, want, &h, &g)
	}
	return g, err
}

// takeHighest grants an engine before 29, which insists on a gateway where the network is to have none, an address that hardly
// anybody types.
func (m serving) takeHighest(p *pool.Pool, o addr.Offset, h *space.Holder, g *AddressGrant) error {
	if err := m.awaitLists(); err != nil {
		return err
	}
	if err := m.obtain(p, o); err != nil {
		return err
	}
	return m.take(p, o, h, g)
}

// keepGateway has the gateway reserved that a network shares which this peer was not asked for, since its database is
// younger: engines before 29 list no gateway that nobody typed, and a container could have it.
func (m *Machine) keepGateway(p *pool.Pool, n *Network) {
	o, ok := n.SharedGateway()
	if !ok || !m.log.IsSole() || !p.Here.Unasked() || p.ReservationAt(o) != nil || m.closing(p, addr.One(o)) {
		return
	}
	_ = m.keepBack(p, o, chronicle.KindGateway) // no call waits for it: what is proposed is set aside
}

// keepListed has what networks keep back in the range, as the last list tells, reserved for them, once nothing else
// is there. Where a network has gone since, that may have been its own.
func (m *Machine) keepListed(p *pool.Pool, in addr.Range) {
	if !m.engine.Knows(p.Here.Released()) {
		return
	}
	for _, o := range slices.Sorted(maps.Keys(p.Here.Kept)) {
		if _, held := p.Space.Holds(o); in.Contains(o) && !held && p.Here.Shown() > 0 && p.ReservationAt(o) == nil && !m.closing(p, addr.One(o)) {
			_ = m.keepBack(p, o, p.Here.Kept[o])
		}
	}
}

// reserveFor grants a network of this host an address by reserveShared. Its pool is said to be used first:
// what networks share goes with the last of them, on whatever host.
func (m serving) reserveFor(p *pool.Pool, o addr.Offset, kind chronicle.Kind) (AddressGrant, error) {
	if err := m.keepUnderNetworks(p, true); err != nil {
		return AddressGrant{}, err
	}
	if err := m.reserveShared(p, o, kind); err != nil {
		return AddressGrant{}, err
	}
	return p.Standing(o), nil
}

// reserveShared reserves an address as a gateway or an auxiliary address.
// Whoever asks for one that is reserved as either is granted it.
func (m serving) reserveShared(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	a := addr.Nth(p.CIDR, o)
	if r := p.ReservationAt(o); r != nil {
		if pool.SharesReservation(r) {
			return nil
		}
		return sentence.AddressTaken(p.Pool, a, r)
	}
	if m.pools.IsInUseElsewhere(a) {
		return p.ErrWarned(a)
	}
	if rec := p.Space.Lookup(o); rec.State == space.Held && !pool.Yields(rec, kind) {
		return p.ErrHeld(a, rec.Holder, rec.Since)
	}
	// What is asked for may be what another host has yet to list. What the engine has
	// listed, or asks for before it has listed anything, is in use here already.
	if !m.pools.IsListing() && m.call != nil && !m.engine.Complete().IsZero() {
		if err := m.awaitLists(); err != nil {
			return err
		}
	}
	if t, _ := p.Ring.At(o); t.Owner != m.members.Self() && t.Owner != ring.Free {
		return m.fromOwner(p, o, wire.WantReserved, kind)
	}
	out, err := m.propose(chronicle.Reserve{Pool: p.Key, Reservation: chronicle.Reservation{Range: addr.One(o), Kind: kind}})
	switch {
	case err != nil:
		return err
	case out[0].Refused != "" && len(p.Users) > 0:
		return failf(ErrAddressReserved, "address %v in %s cannot be reserved: %s", a, sentence.Pool(p.Pool), out[0].Refused)
	case out[0].Refused != "", p.ReservationAt(o) == nil:
		return m.waitForMajority() // the last network before this one went, and what it shares went, or goes, with it
	}
	return nil
}
