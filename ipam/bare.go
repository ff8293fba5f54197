package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Where engines give endpoints no MAC (Config.NoMAC), a container's request with an address has no options on engines
// before 29: it looks like a network's for an auxiliary address, and like that for an endpoint which the engine has and
// asks for again as it starts. Nobody could tell them apart, so such containers are refused (R30): what comes is a
// replay while the engine starts, and else an auxiliary address of a network that the engine does not list yet.

// bare reports whether a container's request may come without options. An engine that sends names
// sends one with each.
func (m *Machine) bare() bool { return m.cfg.NoMAC && m.cfg.AwaitInventory && !m.engine.Named() }

// refuseClaim refuses a request without options that is a container's, or has it wait as long as it may be one. A list
// tells: the engine lists a network that is made, and none in the making. other says that it lists another network on
// the subnet, for which a container may ask.
func (m serving) refuseClaim(p *pool.Pool, q *AddressRequest) (other bool, err error) {
	net := m.engine.Network(q.Network.ID())
	making := net != nil && m.engine.InTheMaking(net, m.now) && (net.Fresh() || p.Here.Shown() == 0)
	if m.engine.Mode() != engine.Running {
		// An engine that starts answers nothing, and asks for the pool of a network before it asks for anything on it.
		asked := net != nil && net.AskedSince(m.engine.Greeted().Serial)
		if o, ok := addr.OffsetOf(p.CIDR, q.Address); ok {
			// A refused replay of an endpoint is a warning in the engine's log.
			if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind == space.Container && rec.Seq >= m.engine.Greeted().Serial {
				return false, p.ErrHeld(q.Address, rec.Holder, rec.Since)
			}
		}
		mode := m.engine.Mode()
		if mode == engine.Starting && net == nil || (making || asked) && (mode != engine.Unknown || !m.inTime()) {
			return false, nil
		}
		return false, m.awaitMeaning(p, q)
	}
	since := m.call.doubted
	told := since != 0 && m.engine.Knows(since)
	switch {
	case !making:
		return false, sentence.AddressNeeds29(p.Pool, q.Address)
	case told, m.engine.Silent():
		return p.Here.Shown() > 0, nil
	}
	return false, m.awaitMeaning(p, q)
}

// refuseClaimOutside is refuseClaim for an address that no pool has.
func (m serving) refuseClaimOutside(q *AddressRequest) error {
	unready := m.members.Ready()
	if unready == nil {
		if _, err := m.serve(&q.Network); err != nil {
			return err
		}
	}
	p := m.pools.On(q.Network.Pool)
	switch {
	case p == nil && m.mayReplay():
		return nil
	case p == nil:
		return unready
	}
	other, err := m.refuseClaim(p, q)
	if other {
		return sentence.AddressNeeds29(p.Pool, q.Address)
	}
	return err
}

// awaitMeaning makes a call wait for a list that was begun after it came.
func (m serving) awaitMeaning(p *pool.Pool, q *AddressRequest) error {
	if c := m.call; c.doubted == 0 {
		c.doubted = m.engine.Stamp()
		m.note(Note{Kind: NoteUnclear, Pool: p.CIDR, Address: q.Address})
	}
	return waitFor(sentence.AddressUnclear(p.Pool, q.Address))
}

// bareAddress answers a request without options of an engine whose containers may make such, too.
func (m serving) bareAddress(p *pool.Pool, q *AddressRequest, o addr.Offset, key uint32) (a AddressGrant, err error) {
	other, err := m.refuseClaim(p, q)
	if err != nil {
		return AddressGrant{}, err
	}
	rec := p.Space.Lookup(o)
	held := rec.State == space.Held && rec.Kind != space.Kept
	switch r := p.ReservationAt(o); {
	case held && (other || rec.Network != 0 && rec.Network != key || rec.Kind == space.Client || rec.Kind == space.Gateway):
		return AddressGrant{}, p.ErrHeld(q.Address, rec.Holder, rec.Since)
	case !other:
		if a, err = m.keptOrReplayed(p, q, o); err == nil {
			p.AskedAgain(o)
		}
		return a, err
	case pool.SharesReservation(r):
		return AddressGrant{}, sentence.AddressEither(p.Pool, q.Address, r)
	}
	// It is held until a list has it reserved: nobody else gets it.
	err = m.claim(p, &q.Network, q.Address, &space.Holder{Kind: space.Unmarked, Network: key}, &a)
	return a, err
}
