package ipam

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
)

// A pool must not go while a host has networks on it: made again, it would
// know nothing of the gateways and auxiliary addresses that those networks keep
// back. Who owns a part of a pool keeps it from being deleted. Who owns none,
// since others have it all or all of it is reserved, says with a command that
// it uses the pool; so does everybody else in the background, since the last
// range may be given away later.

// keepUnderNetworks makes sure that a pool cannot be deleted from now on, since a network is about to be made on it; and
// that what networks share there stays, if this one shares something. One that shares nothing needs no decision where this
// peer owns free space, which nobody takes from it, and says nothing that it uses the pool no more. The error makes the
// call wait.
func (m serving) keepUnderNetworks(p *pool.Pool, shares bool) error {
	keeps := func() bool {
		if p.IsParting(m.log.UnderWay(), m.log.AwaitsEarlier()) {
			return false
		}
		return p.UsedBy(m.members.Self()) || !shares && p.Space.FreeIn(addr.Whole(p.CIDR)) > 0 // what is set aside is not free
	}
	if keeps() {
		return nil
	}
	_, err := m.propose(chronicle.Use{Pool: p.Key})
	if err == nil && !keeps() {
		return m.waitForMajority() // the pool is gone, and is made again
	}
	return err
}

// saysUse reports whether the state says that this peer uses the pool, and no command of
// its own that ends this is under way, or may be (R21).
func (m *Machine) saysUse(p *pool.Pool) bool {
	return p.UsedBy(m.members.Self()) && !p.IsParting(m.log.UnderWay(), m.log.AwaitsEarlier())
}

// tellUse says in the state that this host has networks on the pool.
func (m *Machine) tellUse(p *pool.Pool) {
	if p.Here.Has() && !p.ToldUse(m.log.UnderWay()) && m.pools.Of(p.Key) == p {
		m.background(chronicle.Use{Pool: p.Key})
	}
}

// tellUnused says in the state that this host has none any more (R61): where no request is under way that would have it
// say the opposite, and not while this peer is cut off, since who makes a network again meanwhile is to get what it had.
func (m *Machine) tellUnused(p *pool.Pool) {
	unused := !p.Here.Has() && p.ToldUse(m.log.UnderWay()) && m.pools.Of(p.Key) == p && m.surelyUnused(p)
	if unused && !m.members.View().CutOff() && !m.isAskedFor(p) {
		m.background(chronicle.Unuse{Pool: p.Key})
	}
}

// isAskedFor reports whether a request for the pool, or for something in it, waits.
func (m *Machine) isAskedFor(p *pool.Pool) bool {
	return slices.ContainsFunc(m.calls.waiting, func(c *Call) bool {
		switch q := c.Request.(type) {
		case *PoolRequest:
			return !q.Pool.IsValid() || q.Pool.Masked() == p.CIDR
		case *AddressRequest:
			return q.Network.Pool == p.CIDR
		}
		return false
	})
}

// surelyUnused reports whether no network of this host can be on a pool of which it knows none, or somebody has said that the
// host is to have none. A new database does not know the networks of the former one before a list. While the engine is
// silent the next list tells (R60).
func (m *Machine) surelyUnused(p *pool.Pool) bool {
	before := m.members.NewDB.HasInherited() && !m.members.Wish.HasLeft() && p.WasUsed(m.members.Machine())
	silent := m.cfg.AwaitInventory && !m.engine.WillList()
	return (m.members.IsDraining() || !before && !silent) && m.engine.KnowsNetworks() && !m.engine.Awaits(p.Here)
}

// tendUse tells what was not told yet. That networks are gone it tells after a
// while: one may be about to be made, as where its call has just had told that
// the pool is used.
func (m *Machine) tendUse(p *pool.Pool) {
	switch {
	case p.Here.Has():
		p.IdleSince = time.Time{}
		m.tellUse(p)
	case !p.Facts().IsUsed:
		p.IdleSince = time.Time{}
	case p.IdleSince.IsZero():
		p.IdleSince = m.now
	case m.members.View().Lasted(p.IdleSince, unusedAfter), m.members.IsDraining(), m.lacks(rule.Idle):
		m.leaveUnused(p)
		m.tellUnused(p)
	}
}
