package ipam

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// gateway answers a request for a network's gateway.
func (m *Machine) gateway(p *pool.Pool, q *AddressRequest) (g AddressGrant, err error) {
	m.engine.AskPart(q.Network.ID())
	if q.Address.IsValid() {
		o, ok := addr.OffsetOf(p.CIDR, q.Address)
		if !ok {
			return AddressGrant{}, sentence.AddressOutside(p.CIDR, q.Address)
		}
		if p.HasGateway && p.Gateway == o || m.adoptGateway(p, o) {
			return m.confirm(p, o, gatewayHolder()), nil
		}
		if q.Network.Gateway == GatewayHost && !p.HasGateway && m.mayBeOlder() && m.isOwn(p, o) {
			m.dismissStranger(p, o)
			h := gatewayHolder()
			err := m.take(p, o, &h, &g)
			p.Gateway, p.HasGateway = o, err == nil
			return g, err
		}
		if err := m.reserveFor(p, o, chronicle.KindGateway); err != nil {
			return AddressGrant{}, err
		}
		return standing(p, o), nil
	}
	if m.engine.Network(q.Network.ID()) == nil && m.mayReplay() {
		// Its pool was granted as that of a network which the engine has: of those it names the gateway.
		return AddressGrant{}, failf(ErrNotReady, "ringlet on %s took the new network on %s for an old one, because the engine was starting: create it again", m.cfg.Name, sentence.Pool(p.Pool))
	}
	if o, ok := poolid.GatewayOffset(p.CIDR, q.Network.Gateway, q.Network.GatewayAddr); ok {
		if err := m.reserveFor(p, o, chronicle.KindGateway); err != nil {
			return AddressGrant{}, err
		}
		return standing(p, o), nil
	}
	if o, ok := p.Space.HeldBy(gatewayKey()); ok && !p.HasGateway && p.Space.Mine(o) {
		m.adoptGateway(p, o)
	}
	if p.HasGateway {
		return m.confirm(p, p.Gateway, gatewayHolder()), nil
	}
	h, want := gatewayHolder(), addr.RangeOf(p.CIDR, q.Network.Range)
	if o, ok := m.highestFree(p, want); ok && q.Network.Gateway == GatewayNone {
		err = m.takeHighest(p, o, &h, &g)
	} else {
		err = m.allocate(p, &q.Network, want, &h, &g)
	}
	if err == nil {
		p.Gateway, p.HasGateway = g.Ticket.Offset, true
	}
	return g, err
}

// isOwn reports whether an address is this peer's to take, and nobody here has it but a stranger.
func (m *Machine) isOwn(p *pool.Pool, o addr.Offset) bool {
	kind, held := p.Space.Holds(o)
	return p.Space.Mine(o) && p.Space.Usable(o) && p.ReservationAt(o) == nil && (!held || kind == space.Stranger)
}

// takeHighest grants an engine before 29, which insists on a gateway where the network is to have none, an address that hardly
// anybody types.
func (m *Machine) takeHighest(p *pool.Pool, o addr.Offset, h *space.Holder, g *AddressGrant) error {
	if err := m.awaitLists(); err != nil {
		return err
	}
	if err := m.obtain(p, o); err != nil {
		return err
	}
	return m.take(p, o, h, g)
}

// longestLook is how many held addresses are passed at most in search of a free one.
const longestLook = 4096

// highestFree returns the highest address in a range that this peer may take without asking another one.
func (m *Machine) highestFree(p *pool.Pool, want addr.Range) (addr.Offset, bool) {
	var parts []pool.Part
	for r, t := range p.Ring.Within(want) {
		if t.Owner == ring.Free && !m.members.IsDraining() || t.Owner == m.members.Self() {
			parts = append(parts, pool.Part{Range: r, Owner: t.Owner})
		}
	}
	looked := 0
	for _, r := range slices.Backward(parts) {
		for o := r.End; o > r.Start && looked < longestLook; o-- {
			looked++
			_, held := p.Space.Holds(o - 1)
			if !held && (r.Owner == ring.Free || p.Space.Usable(o-1)) && p.ReservationAt(o-1) == nil && !m.isInUse(addr.Nth(p.CIDR, o-1)) && !m.engine.OnHost(addr.Nth(p.CIDR, o-1)) {
				return o - 1, true
			}
		}
	}
	return 0, false
}

// adoptGateway makes an address that the host was found to have its gateway,
// and reports whether it did: it was this peer's grant before, and is again. It is not
// while a command is under way that it makes way for.
func (m *Machine) adoptGateway(p *pool.Pool, o addr.Offset) bool {
	rec := p.Space.Lookup(o)
	if p.HasGateway || rec.State != space.Held || rec.Kind != space.Host || p.Space.Mine(o) && !p.Space.Usable(o) {
		return false
	}
	m.confirm(p, o, gatewayHolder())
	p.Gateway, p.HasGateway = o, true
	return true
}

// leaveGateway has the next network of a pool get the gateway of the last one again, which
// went and which the host still had when it was last looked at, until the host is seen without
// it: what it has after that is not the bridge, which went with its network.
func (m *Machine) leaveGateway(p *pool.Pool) {
	if rec := p.Space.Lookup(p.Gateway); rec.State == space.Held && rec.Kind == space.Host {
		m.confirm(p, p.Gateway, space.Holder{Kind: space.Host, Key: gatewayKey()})
	}
}

// gatewayHolder is this host as the holder of its gateway in a pool.
func gatewayHolder() space.Holder { return space.Holder{Kind: space.Gateway, Key: gatewayKey()} }

// gatewayKey is the key of this host's gateway in a pool.
func gatewayKey() space.Key { return space.KeyOf("gateway") }

// sharedGateway returns the gateway that the network's mode shares between all
// engines, reserved, or an invalid prefix if the mode has none.
func (m *Machine) sharedGateway(p *pool.Pool, n Network) (netip.Prefix, error) {
	o, ok := poolid.GatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
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
func (m *Machine) keepGateway(p *pool.Pool, n *Network) {
	o, ok := poolid.GatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
	if !ok || !m.log.IsSole() || !p.Here.Unasked() || p.ReservationAt(o) != nil || m.closing(p, addr.One(o)) {
		return
	}
	m.keepBackSoon(p, o, chronicle.KindGateway)
}

// keepListed has what networks keep back in the range, as the last list tells, reserved for them, once nothing else
// is there. Where a network has gone since, that may have been its own.
func (m *Machine) keepListed(p *pool.Pool, in addr.Range) {
	if !m.engine.Knows(p.Here.Released()) {
		return
	}
	for _, o := range slices.Sorted(maps.Keys(p.Here.Kept)) {
		if _, held := p.Space.Holds(o); in.Contains(o) && !held && p.Here.Shown() > 0 && p.ReservationAt(o) == nil && !m.closing(p, addr.One(o)) {
			m.keepBackSoon(p, o, p.Here.Kept[o])
		}
	}
}

// keepBackSoon is keepBack while a call is served, which does not wait for it: what is proposed is set aside.
func (m *Machine) keepBackSoon(p *pool.Pool, o addr.Offset, kind chronicle.Kind) {
	current := m.calls.current
	m.calls.current = nil
	_ = m.keepBack(p, o, kind)
	m.calls.current = current
}

// reserveFor is reserveShared for a network of this host. Its pool is said to be used first:
// what networks share goes with the last of them, on whatever host.
func (m *Machine) reserveFor(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	if err := m.keepUnderNetworks(p, true); err != nil {
		return err
	}
	return m.reserveShared(p, o, kind)
}

// reserveShared reserves an address as a gateway or an auxiliary address.
// Whoever asks for one that is reserved as either is granted it.
func (m *Machine) reserveShared(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	a := addr.Nth(p.CIDR, o)
	if r := p.ReservationAt(o); r != nil {
		if sharesReservation(r) {
			return nil
		}
		return sentence.AddressTaken(p.Pool, a, r)
	}
	if m.inUseElsewhere(a) {
		return m.errWarned(p, a)
	}
	if rec := p.Space.Lookup(o); rec.State == space.Held && !p.Yields(o, rec, kind) {
		return m.errHeld(p, a, rec.Holder, rec.Since)
	}
	// What is asked for may be what another host has yet to list. What the engine has
	// listed, or asks for before it has listed anything, is in use here already.
	if !m.list.running && m.calls.current != nil && !m.engine.Complete().IsZero() {
		if err := m.awaitLists(); err != nil {
			return err
		}
	}
	if t, _ := p.Ring.At(o); t.Owner != m.members.Self() && t.Owner != ring.Free {
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
		return failf(ErrAddressReserved, "address %v in %s cannot be reserved: %s", a, sentence.Pool(p.Pool), out[0].Refused)
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

// reserveElsewhere asks the owner of an address to reserve it, who refuses
// while it is held (protocol, 3.7).
func (m *Machine) reserveElsewhere(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	t, _ := p.Ring.At(o)
	if m.members.IsPredecessor(t.Owner) {
		return m.waitForSuccession()
	}
	if m.state.Member(t.Owner) == nil {
		return m.errQuarantined(p, o, t.Owner)
	}
	answer, err := m.ask(p, wire.WantReserved, addr.One(o), kind)
	if errors.Is(err, errRefused) {
		return sentence.AddressHeldBy(p.Pool, addr.Nth(p.CIDR, o), answer.Text)
	}
	return err
}
