package ipam

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// gateway answers a request for a network's gateway.
func (m *Machine) gateway(p *pool, q *AddressRequest) (g AddressGrant, err error) {
	m.stillMade(q.Network)
	if q.Address.IsValid() {
		o, ok := addr.OffsetOf(p.CIDR, q.Address)
		if !ok {
			return AddressGrant{}, errOutside(p.CIDR, q.Address)
		}
		if p.hasGateway && p.gateway == o || m.adoptGateway(p, o) {
			return m.confirm(p, o, gatewayHolder()), nil
		}
		if h := gatewayHolder(); q.Network.Gateway == GatewayHost && !p.hasGateway && m.grantedBefore(p, o) {
			p.gateway, p.hasGateway = o, true
			err := m.take(p, o, &h, &g)
			return g, err
		}
		if err := m.reserveFor(p, &q.Network, o, chronicle.KindGateway); err != nil {
			return AddressGrant{}, err
		}
		return standing(p, o), nil
	}
	if m.networks[q.Network.ID()] == nil && m.replaying {
		// Its pool was granted as that of a network which the engine has: of those it names the gateway.
		return AddressGrant{}, failf(ErrNotReady, "ringlet on %s took the new network on %s for an old one, because the engine was starting: create it again", m.cfg.Name, poolText(p.Pool))
	}
	if o, ok := gatewayOffset(p.CIDR, q.Network.Gateway, q.Network.GatewayAddr); ok {
		if err := m.reserveFor(p, &q.Network, o, chronicle.KindGateway); err != nil {
			return AddressGrant{}, err
		}
		return standing(p, o), nil
	}
	if o, ok := p.space.HeldBy(gatewayKey()); ok && !p.hasGateway && p.space.Mine(o) {
		m.adoptGateway(p, o)
	}
	if p.hasGateway {
		return m.confirm(p, p.gateway, gatewayHolder()), nil
	}
	h := gatewayHolder()
	err = m.allocate(p, &q.Network, addr.RangeOf(p.CIDR, q.Network.Range), &h, &g)
	if err == nil {
		p.gateway, p.hasGateway = g.Ticket.Offset, true
	}
	return g, err
}

// adoptGateway makes an address that the host was found to have its gateway,
// and reports whether it did: it was this peer's grant before, and is again. It is not
// while a command is under way that it makes way for.
func (m *Machine) adoptGateway(p *pool, o addr.Offset) bool {
	rec := p.space.Lookup(o)
	if p.hasGateway || rec.State != space.Held || rec.Kind != space.Host || p.space.Mine(o) && !p.space.Usable(o) {
		return false
	}
	m.confirm(p, o, gatewayHolder())
	p.gateway, p.hasGateway = o, true
	return true
}

// leaveGateway has the next network of a pool get the gateway of the last one again, which
// went and which the host still had when it was last looked at, until the host is seen without
// it: what it has after that is not the bridge, which went with its network.
func (m *Machine) leaveGateway(p *pool) {
	if rec := p.space.Lookup(p.gateway); rec.State == space.Held && rec.Kind == space.Host {
		m.confirm(p, p.gateway, space.Holder{Kind: space.Host, Key: gatewayKey()})
	}
}

// gatewayHolder is this host as the holder of its gateway in a pool.
func gatewayHolder() space.Holder { return space.Holder{Kind: space.Gateway, Key: gatewayKey()} }

// gatewayKey is the key of this host's gateway in a pool.
func gatewayKey() space.Key { return space.KeyOf("gateway") }

// gatewayOffset returns where the gateway that all engines share is, for the
// modes that have one.
func gatewayOffset(cidr netip.Prefix, mode GatewayMode, a netip.Addr) (addr.Offset, bool) {
	size := addr.Offset(addr.Size(cidr))
	first, last := addr.Offset(0), size-1
	if size > 2 {
		first = 1
		if cidr.Addr().Is4() {
			last--
		}
	}
	switch mode {
	case GatewayFirst:
		return first, true
	case GatewayLast:
		return last, true
	case GatewayAddr:
		return addr.OffsetOf(cidr, a)
	default: // each engine has its own, or there is none
		return 0, false
	}
}

// sharedGateway returns the gateway that the network's mode shares between all
// engines, reserved, or an invalid prefix if the mode has none.
func (m *Machine) sharedGateway(p *pool, n Network) (netip.Prefix, error) {
	o, ok := gatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
	if !ok {
		return netip.Prefix{}, nil
	}
	if err := m.reserveShared(p, o, chronicle.KindGateway); err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(addr.Nth(p.CIDR, o), p.CIDR.Bits()), nil
}

// keepGateway has the gateway reserved that a network shares which this peer was not asked for, since its database is
// younger: engines before 29 list no gateway that nobody typed, and a container could have it.
func (m *Machine) keepGateway(p *pool, n *Network) {
	o, ok := gatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
	if !ok || !m.soleUser() || p.lost == 0 || p.ReservationAt(o) != nil || m.closing(p, addr.One(o)) {
		return
	}
	m.keepBackSoon(p, o, chronicle.KindGateway)
}

// keepListed has what networks keep back in the range, as the last list tells, reserved for them, once nothing else
// is there. Where a network has gone since, that may have been its own.
func (m *Machine) keepListed(p *pool, in addr.Range) {
	if p.partings > 0 {
		return
	}
	for _, o := range slices.Sorted(maps.Keys(p.kept)) {
		if _, held := p.space.Holds(o); in.Contains(o) && !held && p.listed > 0 && p.ReservationAt(o) == nil && !m.closing(p, addr.One(o)) {
			m.keepBackSoon(p, o, p.kept[o])
		}
	}
}

// keepBackSoon is keepBack while a call is served, which does not wait for it: what is proposed is set aside.
func (m *Machine) keepBackSoon(p *pool, o addr.Offset, kind chronicle.Kind) {
	current := m.current
	m.current = nil
	_ = m.keepBack(p, o, kind)
	m.current = current
}

// reserveFor is reserveShared for a network of this host. Its pool is said to be used first:
// what networks share goes with the last of them, on whatever host.
func (m *Machine) reserveFor(p *pool, n *Network, o addr.Offset, kind chronicle.Kind) error {
	if r := p.ReservationAt(o); r != nil && r.Kind == chronicle.KindExcluded {
		if again, err := m.asksAgain(n); again || err != nil {
			return err
		}
	}
	if !m.mayShare(p, n) {
		if err := m.keepUnderNetworks(p, true); err != nil {
			return err
		}
	}
	if err := m.reserveShared(p, o, kind); err != nil {
		return err
	}
	if net := m.networks[n.ID()]; net != nil {
		m.markUse(net)
	}
	return nil
}

// asksAgain reports whether an engine that starts asks again for what a network of it has, and an operator has
// excluded meanwhile, as the host of a lost database may have it on a bridge: nobody else gets that, and the network
// goes on with it whatever it is answered. Of a network that only lists have told of, whether the engine starts tells
// that it answers nothing, or the next list; the error makes the call wait for that, also where a container has asked
// since. Where neither comes in time it is as if it started.
func (m *Machine) asksAgain(n *Network) (bool, error) {
	net := m.networks[n.ID()]
	switch {
	case !m.replaying && (m.current == nil || !m.current.starts):
		return false, nil
	case net != nil && net.again:
		return true, nil
	case !m.cfg.AwaitInventory || m.inventory.knows(m.greeted.serial) || n.Space != Local:
		return false, nil
	case m.blind:
		return true, nil
	case !m.inTime():
		return net == nil || !net.fresh || m.unlisted, nil
	}
	return false, m.awaitNetworkList()
}

// reserveShared reserves an address as a gateway or an auxiliary address.
// Whoever asks for one that is reserved as either is granted it.
func (m *Machine) reserveShared(p *pool, o addr.Offset, kind chronicle.Kind) error {
	a := addr.Nth(p.CIDR, o)
	delete(p.unnamed, o) // it is named again
	if r := p.ReservationAt(o); r != nil {
		if sharesReservation(r) {
			return nil
		}
		return errKept(p, a, r)
	}
	if m.inUseElsewhere(a) {
		return m.errWarned(p, a)
	}
	if rec := p.space.Lookup(o); rec.State == space.Held && !p.yields(o, rec, kind) {
		return m.errHeld(p, a, rec.Holder, rec.Since)
	}
	// What is asked for may be what another host has yet to list. What the engine has
	// listed, or asks for before it has listed anything, is in use here already.
	if !m.listing && m.current != nil && !m.inventory.isZero() {
		if err := m.awaitLists(); err != nil {
			return err
		}
	}
	if t, _ := p.Ring.At(o); t.Owner != m.self && t.Owner != ring.Free {
		return m.reserveElsewhere(p, o, kind)
	}
	out, err := m.propose(chronicle.Reserve{Pool: p.Key, Reservation: chronicle.Reservation{Range: addr.One(o), Kind: kind}})
	if err != nil {
		return err
	}
	if out[0].Refused != "" && len(p.Users) == 0 {
		return m.waitForMajority() // the last network before this one went
	}
	if out[0].Refused != "" {
		return failf(ErrAddressReserved, "address %v in %s cannot be reserved: %s", a, poolText(p.Pool), out[0].Refused)
	}
	if p.ReservationAt(o) == nil {
		return m.waitForMajority() // it went since, with the last network before this one
	}
	return nil
}

// sharesReservation reports whether a reservation, which may be nil, is one that
// any network may share.
func sharesReservation(r *chronicle.Reservation) bool {
	return r != nil && r.Kind.Shared()
}

// yields reports whether the holder of an address makes way for a reservation
// of it, as soon as that is decided. The bridge of a network that this peer has
// lost has its gateway on an interface; what was asked for without a word may
// be auxiliary, though nothing that an operator excludes; a stranger may be the
// very router or device that it is kept back for; and a gateway of this host
// alone may be shared from now on.
func (p *pool) yields(o addr.Offset, rec space.Record, kind chronicle.Kind) bool {
	if kind == chronicle.KindKeptForName {
		return false
	}
	return rec.Kind == space.Host || rec.Kind == space.Stranger || rec.Kind == space.Unmarked && kind != chronicle.KindExcluded ||
		kind == chronicle.KindGateway && rec.Kind == space.Gateway && p.hasGateway && p.gateway == o
}

// reserveElsewhere asks the owner of an address to reserve it, who refuses
// while it is held (protocol, 3.7).
func (m *Machine) reserveElsewhere(p *pool, o addr.Offset, kind chronicle.Kind) error {
	t, _ := p.Ring.At(o)
	if m.isPredecessor(t.Owner) {
		return m.waitForSuccession()
	}
	if m.state.Member(t.Owner) == nil {
		return m.errQuarantined(p, o, t.Owner)
	}
	answer, err := m.ask(p, wire.WantReserved, addr.One(o), kind)
	if errors.Is(err, errRefused) {
		return m.errHeldBy(p, o, answer.Text)
	}
	return err
}
