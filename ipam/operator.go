package ipam

import (
	"errors"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/wire"
)

// createPool makes a pool for an operator, and reports whether it is new.
func (m serving) createPool(q *PoolCreation) (_ PoolStatus, created bool, _ error) {
	if err := m.members.Ready(); err != nil {
		return PoolStatus{}, false, err
	}
	cidr, err := q.Check()
	if err != nil {
		return PoolStatus{}, false, err
	}
	if other := m.state.PoolNamed(q.Name); other != nil && other.CIDR != cidr {
		return PoolStatus{}, false, failf(ErrBadRequest, "the name %s belongs to the pool %v: use another name", q.Name, other.CIDR)
	}
	there := m.pools.On(cidr)
	if created = there == nil; created {
		if err := m.awaitLists(); err != nil {
			return PoolStatus{}, false, err
		}
	} else if m.removing(there) {
		return PoolStatus{}, false, m.waitForEarlier()
	} else if err := m.awaitEarlier(); err != nil {
		return PoolStatus{}, false, err
	}
	p, err := m.joinPool(cidr, poolSpec{origin: chronicle.FromOperator})
	m.call.partly = err != nil && q.Name != ""
	if err == nil {
		err = m.namePool(p, q.Name)
	}
	if err != nil {
		return PoolStatus{}, false, err
	}
	return m.poolStatus(p, true), created || m.call.pool.made == p.Key, nil
}

// removePool removes a pool for an operator.
func (m serving) removePool(q *PoolRemoval) error {
	if err := m.members.Ready(); err != nil {
		return err
	}
	p := m.poolRef(q.Pool)
	switch {
	case p == nil && m.call.pool.removed:
		return nil // this call had it removed
	case p == nil && m.creating(q.Pool):
		return m.waitForEarlier()
	case p == nil:
		if err := m.awaitEarlier(); err != nil {
			return err
		}
		if p = m.poolRef(q.Pool); p == nil {
			return sentence.NoPool(q.Pool)
		}
	}
	if err := m.awaitLists(); err != nil {
		return err
	}
	if err := m.awaitNetworkList(); err != nil {
		return err
	}
	if p.HasContainers() || p.IsBusy() && !p.Here.Has() { // its gateway goes with its networks
		held := m.poolStatus(p, false).HeldHere
		err := failf(ErrPoolInUse, "pool %s has %s in use, which ringlet ip ls --pool %v shows: remove the containers first, and free other holders with ringlet free", sentence.Pool(p.Pool), sentence.Plural(held, "address", "addresses"), p.CIDR)
		return m.unlessGone(p, err)
	}
	if p.Here.Has() || m.engine.Awaits(p.Here) {
		err := failf(ErrPoolInUse, "pool %s has %s of this host on it: remove them first with docker network rm", sentence.Pool(p.Pool), sentence.Plural(max(p.Here.Networks(), 1), "network", "networks"))
		return m.unlessGone(p, err)
	}
	if err := m.vacated(p); err != nil {
		return err
	}
	actions, err := m.removal(p)
	if err != nil {
		return err
	}
	out, err := m.propose(actions...)
	if err != nil {
		return err
	}
	for _, o := range out {
		if _, is := o.Command.Action.(chronicle.DeletePool); is && o.Refused != "" {
			return failf(ErrPoolInUse, "pool %s cannot be removed: %s", sentence.Pool(p.Pool), o.Refused)
		}
	}
	return nil
}

// removing reports whether a command of this peer is under way that removes the pool.
func (m *Machine) removing(p *pool.Pool) bool {
	return m.opposes(func(a chronicle.Action) bool {
		d, ok := a.(chronicle.DeletePool)
		return ok && d.Pool == p.Key
	})
}

// creating reports whether a command of this peer is under way that creates the pool
// of a subnet.
func (m *Machine) creating(subnet string) bool {
	cidr, err := netip.ParsePrefix(subnet)
	return err == nil && m.opposes(func(a chronicle.Action) bool {
		c, ok := a.(chronicle.CreatePool)
		return ok && c.CIDR == cidr.Masked()
	})
}

// poolRef returns the pool that a user names, by subnet or name, or nil.
func (m *Machine) poolRef(ref string) *pool.Pool {
	if cp := m.state.PoolNamed(ref); cp != nil {
		return m.pools.Of(cp.Key)
	}
	if cidr, err := netip.ParsePrefix(ref); err == nil {
		return m.pools.On(cidr.Masked())
	}
	return nil
}

// vacated has a pool left by all other peers that own a part of it or have
// networks on it, which they refuse as long as they use it.
func (m serving) vacated(p *pool.Pool) error {
	for _, id := range p.Parties() {
		if m.state.Gone(id) != nil {
			return failf(ErrPoolInUse, "pool %s %s", sentence.Pool(p.Pool), m.quarantineText(id))
		}
	}
	if m.trade.IsLeft(p.Pool) {
		return nil
	}
	answer, err := m.ask(p, wire.WantVacant, addr.Whole(p.CIDR), 0)
	if errors.Is(err, errRefused) {
		return failf(ErrPoolInUse, "pool %s is in use on another host: %s; remove that there first", sentence.Pool(p.Pool), answer.Text)
	}
	return err
}

// leave makes this peer leave its cluster. It is answered when it has left.
func (m serving) leave(q *LeaveRequest) error {
	if m.members.Wish.HasLeft() {
		return m.members.LeftIsKnown()
	}
	if err := m.members.Ready(); err != nil {
		return err
	}
	held, networks := 0, m.engine.Count()
	for _, p := range m.pools.Sorted() {
		held += int(guests(p))
	}
	if err := m.members.MayLeave(held, networks, q.Force); err != nil {
		return err
	}
	if m.call.host.leaves && !m.members.Wish.IsLeaving() {
		return failf(ErrBadRequest, "%s stays: its drain was undone in the meantime", m.cfg.Name)
	}
	m.call.host.leaves = true
	forced := held > 0 || networks > 0
	m.members.Wish.Leave(forced)
	if !forced {
		if err := m.drainSelf(&DrainRequest{Also: true}); err != nil {
			return err
		}
		return waitFor(failf(ErrNotReady, "%s is draining and leaves as soon as it owns no address: see ringlet status", m.cfg.Name))
	}
	out, err := m.propose(chronicle.Evict{Peer: m.members.Self()})
	if err != nil {
		return err
	}
	if out[0].Refused == "" {
		return m.members.LeftIsKnown()
	}
	m.members.Wish.Stay()
	return failf(ErrBadRequest, "%s cannot leave its cluster: %s", m.cfg.Name, out[0].Refused)
}
