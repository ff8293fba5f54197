package ipam

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// A pool must not go while a host has networks on it: made again, it would
// know nothing of the gateways and auxiliary addresses that those networks keep
// back. Who owns a part of a pool keeps it from being deleted. Who owns none,
// since others have it all or all of it is reserved, says with a command that
// it uses the pool; so does everybody else in the background, since the last
// range may be given away later.

// keepUnderNetworks makes sure that a pool cannot be deleted from now on, since
// a network is about to be made on it; and that what networks share there stays, if
// this one shares something. The error makes the call wait.
func (m *Machine) keepUnderNetworks(p *pool, shares bool) error {
	keeps := m.kept
	if shares {
		keeps = m.saysUse
	}
	if keeps(p) {
		return nil
	}
	_, err := m.propose(chronicle.Use{Pool: p.Key})
	if err == nil && !keeps(p) {
		return m.waitForMajority() // the pool is gone, and is made again
	}
	return err
}

// kept reports whether nobody can delete the pool before this peer agrees: the
// state says that it uses the pool, or it owns space there, and no command of
// its own that ends this is under way.
func (m *Machine) kept(p *pool) bool {
	if m.saysUse(p) {
		return true
	}
	return p.space.FreeIn(addr.Whole(p.CIDR)) > 0 // what is set aside is not free
}

// saysUse reports whether the state says that this peer uses the pool, and no command of
// its own that ends this is under way, or may be: what it said before it started anew is
// not known.
func (m *Machine) saysUse(p *pool) bool {
	return p.UsedBy(m.self) && m.state.Number(m.self) >= m.unsettledTo && !m.parting(p)
}

// mayShare reports whether what is reserved for networks stays so for as long as this host has
// the network: the state says that the host uses the pool, and nothing is under way that ends
// it. Where that is not known, as what was said before a start is not, the network's record may
// tell. Whether the engine makes a network or asks again for one that it has is no matter, as
// that may not be known either.
func (m *Machine) mayShare(p *pool, n *Network) bool {
	net := m.networks[n.ID()]
	return m.saysUse(p) || net != nil && net.useSaid && p.UsedBy(m.self)
}

// markUse writes to the record of a network that the state says that its pool is used, once it
// does, and reports whether that stands there. Nothing ends it before the network is gone.
func (m *Machine) markUse(n *network) bool {
	if n.useSaid {
		return true
	}
	p := m.poolOf(n.Pool)
	if p == nil || !m.saysUse(p) {
		return false
	}
	n.useSaid = true
	m.saveNetwork(n)
	return true
}

// markUses is markUse of all networks.
func (m *Machine) markUses() {
	if !m.toMark {
		return
	}
	m.toMark = false
	for _, id := range m.sortedNetworks() {
		m.toMark = !m.markUse(m.networks[id]) || m.toMark
	}
}

// tellUse says in the state whether this host has networks on the pool.
func (m *Machine) tellUse(p *pool) {
	switch uses, told := m.networksOf(p) > 0, m.toldUse(p); {
	case uses == told || m.pools[p.Key] != p: // it is told, or there is nothing to tell of any more
	case uses:
		m.background(chronicle.Use{Pool: p.Key})
	case m.surelyUnused(p):
		m.background(chronicle.Unuse{Pool: p.Key})
	}
}

// surelyUnused reports whether no network of this host can be on a pool of which it knows
// none, or somebody has said that the host is to have none. Nobody tells of those that a
// new database never knew, or that it knew by an inventory alone which came before this
// start: where none comes now it has to have seen one go. Where inventories come, the next one
// tells whether what was given back last was a network's that lives: the engine may have given
// back late what it asked for before the database was lost.
func (m *Machine) surelyUnused(p *pool) bool {
	switch {
	case m.unlisted && m.inherited && m.usedBefore(p) && !m.draining() && !m.left:
		return false
	case m.draining(), m.sighted(), !m.cfg.AwaitInventory:
		return m.knowsNetworks() && !m.givenBack(p)
	}
	return p.parted.serial > 0
}

// usedBefore reports whether a former peer of this machine may have had networks on the
// pool: it was there when that one was evicted.
func (m *Machine) usedBefore(p *pool) bool {
	return slices.ContainsFunc(m.state.Former, func(g chronicle.Gone) bool {
		return g.Machine == m.machine() && g.ID != m.self && p.Key.Slot < g.Evicted
	})
}

// tendUse tells what was not told yet. That networks are gone it tells after a
// while: one may be about to be made, as where its call has just had told that
// the pool is used.
func (m *Machine) tendUse(p *pool) {
	switch {
	case m.networksOf(p) > 0:
		p.idleSince = time.Time{}
		m.tellUse(p)
	case !m.factsOf(p).used:
		p.idleSince = time.Time{}
	case p.idleSince.IsZero():
		p.idleSince = m.now
	case m.now.Sub(p.idleSince) >= unusedAfter:
		m.settle(p)
	}
}

// toldUse reports whether the state says that this host has networks on the
// pool, or will once what is under way is decided.
func (m *Machine) toldUse(p *pool) bool {
	told := m.factsOf(p).used
	if len(m.proposals) == 0 {
		return told
	}
	for a := range m.underWay() {
		switch a := a.(type) {
		case chronicle.Use:
			told = told || a.Pool == p.Key
		case chronicle.Unuse:
			told = told && a.Pool != p.Key
		}
	}
	return told
}

// parting reports whether a command of this peer is under way that ends what
// keeps the pool, whatever was proposed after it.
func (m *Machine) parting(p *pool) bool {
	if m.networksOf(p) == 0 && m.state.Number(m.self) < m.unsettledTo {
		return true // what it said before it started anew is not known
	}
	ends := false
	for a := range m.underWay() {
		switch a := a.(type) {
		case chronicle.Unuse:
			ends = ends || a.Pool == p.Key
		case chronicle.DeletePool:
			ends = ends || a.Pool == p.Key
		}
	}
	return ends
}

// parties returns the peers that own a part of the pool or have networks on it,
// in order of their IDs.
func (p *pool) parties() []peer.ID {
	out := slices.Clone(p.Users)
	for t := range p.Ring.Tokens() {
		if t.Owner != ring.Free && t.Owner != ring.Reserved {
			out = append(out, t.Owner)
		}
	}
	slices.SortFunc(out, peer.ID.Compare)
	return slices.Compact(out)
}
