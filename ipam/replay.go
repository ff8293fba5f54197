package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/subnets"
)

// An engine that starts asks again for what it has: for the pool of each network, its gateway, its auxiliary addresses, and for
// the addresses of its endpoints. It answers no question before it is done, and has started its containers by then. One before 29
// does not start, or loses parts of a network, where it is refused anything. So it gets all of that, whatever this peer knows. What
// this peer does not hold it withholds until a list tells (R59).

// mayReplay reports whether the request that is served may be of an engine that starts: it may have been as the request came, and no
// list that it has answered since says otherwise (R30).
func (m serving) mayReplay() bool {
	return m.call.starts && m.engine.Mode() != engine.Running
}

// holdsUp reports whether an engine starts, and this peer cannot give it what it asks for again for longer than it may have it wait:
// by then it is in its cluster, or will not be soon.
func (m *Machine) holdsUp() bool {
	return m.engine.Mode() == engine.Starting && m.members.View().HasListened(engine.ListTime)
}

// replayedPool answers a request that this peer cannot grant as it stands, for a network of which it knows
// nothing, as where it has lost its database, or has an old one. An engine that starts has the network,
// and has nobody make a new one, before it starts the first container. Of addresses
// nothing is granted by that: the pool is made, or refused, when a container asks for the first.
func (m serving) replayedPool(q *PoolRequest, why error) (PoolGrant, error) {
	n, err := q.On(q.Pool)
	switch {
	case err != nil || subnets.CheckUse(n.Pool) != nil || n.CheckGateway() != nil: // no engine has it
	case !m.mayReplay():
	case m.holdsUp():
		return PoolGrant{Network: n}, nil
	case m.engine.Mode() == engine.Starting, m.engine.Mode() == engine.Unknown:
		return PoolGrant{}, waitFor(finalError(why))
	}
	return PoolGrant{}, why
}

// unready answers a request for an address while this peer is not ready; why says why. An engine that starts is answered, and a
// container gets only what it has.
func (m serving) unready(q *AddressRequest, why error) (AddressGrant, error) {
	if g, its := m.standingHolder(q); its {
		return g, nil
	}
	o, within := addr.OffsetOf(q.Network.Pool, q.Address)
	p, bare := m.pools.On(q.Network.Pool), q.Purpose == ForUnmarked && m.bare()
	// A container without a word of its own may ask for what it has after others have started.
	again := m.mayReplay() || bare && m.engine.Mode() != engine.Running
	if !within || m.lacks(rule.Replays) || q.Purpose != ForGateway && q.Purpose != ForUnmarked || !again {
		return AddressGrant{}, why
	}
	if p != nil && bare {
		if _, err := m.refuseClaim(p, q); err != nil {
			return AddressGrant{}, err
		}
	}
	switch mode := m.engine.Mode(); {
	case p != nil && m.confirms(p, q, o):
		if bare {
			p.AskedAgain(o)
		}
	case q.Purpose == ForGateway && m.engine.OnHost(q.Address): // that of a bridge, whether or not there is a pool
	case bare && m.holdsUp():
		return AddressGrant{}, finalError(why) // it goes on whatever it is told
	case m.mayReplay() && m.members.Wish.HasLeft() && p != nil && m.isKeptBack(p, o):
	case mode == engine.Starting && !bare && m.mayLack(q) && !m.members.Wish.HasLeft():
		m.pools.Withhold(q.Address, q.Network.Pool)
	default:
		return AddressGrant{}, why
	}
	return AddressGrant{Address: netip.PrefixFrom(q.Address, q.Network.Pool.Bits())}, nil
}

// confirms reports whether what this peer knows says that a network or an endpoint of this host has the address. What networks share
// none but networks get.
func (m serving) confirms(p *pool.Pool, q *AddressRequest, o addr.Offset) bool {
	rec := p.Space.Lookup(o)
	switch {
	case pool.SharesReservation(p.ReservationAt(o)):
		return m.saysUse(p) || m.mayReplay() && (m.engine.Mode() != engine.Absent || m.members.Wish.HasLeft())
	case rec.State != space.Held:
		return false
	case q.Purpose == ForGateway:
		return rec.Kind == space.Gateway || rec.Kind == space.Host
	}
	return rec.Kind != space.Client && rec.Kind != space.Kept
}

// replayed has an engine that starts be granted what it asks for again, where err says that this peer cannot grant that as it stands,
// or not yet: what is under way for it goes on. Whether the engine starts is waited for.
func (m serving) replayed(q *AddressRequest, a *AddressGrant, err error) error {
	if err == nil || !q.Address.IsValid() || !m.mayReplay() {
		return err
	}
	bare := q.Purpose == ForUnmarked && m.bare()
	switch mode := m.engine.Mode(); {
	case (bare || !m.mayLack(q)) && !m.isReserved(q): // it may be a container's, or of another network, in the making
	case mode == engine.Unknown:
		return waitFor(finalError(err))
	case mode == engine.Starting && (!sentence.Waits(err) || !m.inTime() || m.holdsUp()):
		m.pools.Withhold(q.Address, q.Network.Pool)
		*a = AddressGrant{Address: netip.PrefixFrom(q.Address, q.Network.Pool.Bits())}
		return nil
	}
	return err
}

// mayLack reports whether this peer's database may know nothing of what a network has, as it is younger than that.
func (m *Machine) mayLack(q *AddressRequest) bool {
	return m.members.NewDB.IsUnlisted() || m.engine.Network(q.Network.ID()) == nil
}

// isKeptBack reports whether the address at o lies in the space of this peer, or of who it was before it lost its
// database: of a host that has left nobody is given that before it is forgotten.
func (m *Machine) isKeptBack(p *pool.Pool, o addr.Offset) bool {
	t, _ := p.Ring.At(o)
	return t.Owner == m.members.Self() || m.members.IsPredecessor(t.Owner)
}

// isReserved reports whether an address is reserved for no container.
func (m *Machine) isReserved(q *AddressRequest) bool {
	p := m.pools.On(q.Network.Pool)
	if p == nil {
		return false
	}
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	return ok && !pool.IsHoldable(p.ReservationAt(o))
}

// mayBeOlder reports whether what the engine asks for may be older than this peer's database, which knows nothing of it: before the
// first list nothing tells an endpoint from what a network keeps back. So it is held until the list tells, and reserved then.
func (m serving) mayBeOlder() bool {
	return m.mayReplay() && m.members.NewDB.IsUnlisted() && m.cfg.AwaitInventory
}

// standingHolder answers a container that asks for an address with an engine that starts, while this
// peer is suspended: it has just what this peer's own record says that it has, and a list of the
// engine has shown it with that since this process started, so that the others are warned of it.
// What ran before the host was off may be somebody else's by now.
func (m serving) standingHolder(q *AddressRequest) (AddressGrant, bool) {
	p := m.pools.On(q.Network.Pool)
	if p == nil || q.Purpose != ForContainer || !m.members.IsSuspended() || !m.mayReplay() {
		return AddressGrant{}, false
	}
	for o, rec := range p.Held() {
		its := rec.Kind == space.Container && (q.Name != "" && rec.Name == q.Name || !q.MAC.IsZero() && MAC(rec.MAC) == q.MAC)
		if its && p.Shows(o) && (!q.Address.IsValid() || q.Address == addr.Nth(p.CIDR, o)) {
			return p.Standing(o), true
		}
	}
	return AddressGrant{}, false
}
