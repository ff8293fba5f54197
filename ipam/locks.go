package ipam

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// lock takes a lock for whoever asks, if nobody else has it. Who asks again with the same token gets the same lock.
func (m serving) lock(q *LockRequest) (fence uint64, err error) {
	if err := m.members.Ready(); err != nil {
		return 0, err
	}
	if err := q.Check(); err != nil {
		return 0, err
	}
	if err := m.members.AwaitLevel(chronicle.WithLocks); err != nil {
		return 0, err
	}
	if l := m.state.Locks.Of(q.Name); l != nil && l.Owner == m.members.Self() && l.Token == q.Token {
		if m.unlocking(l) {
			return 0, m.waitForEarlier()
		}
		return l.Fence, m.awaitEarlier()
	} else if l != nil {
		return 0, failf(ErrLocked, "the lock %s is held by %s on %s: wait for it with --wait, or try again later", l.Name, sentence.Word(l.Holder), m.members.View().NameOf(l.Owner))
	}
	if n := len(m.state.Locks.Locks); n >= lock.MaxLocks {
		return 0, failf(ErrLocked, "%d locks are held, and no more can be: end some of them first, which ringlet kv get --recursive ringlet/locks/ lists", n)
	}
	out, err := m.propose(chronicle.Lock{Want: q.Want})
	switch {
	case err != nil:
		return 0, err
	case out[0].Refused != "":
		return 0, m.waitForMajority() // somebody else was quicker
	}
	return out[0].Fence, nil
}

// unlocking reports whether a command of this peer is under way that ends the lock.
func (m *Machine) unlocking(l *lock.Lock) bool {
	ends := chronicle.Unlock{Name: l.Name, Fence: l.Fence}
	return m.opposes(func(a chronicle.Action) bool { return a == ends })
}

// unlock ends a lock of this host. One that has ended is no error.
func (m serving) unlock(q *UnlockRequest) error {
	if err := m.members.Ready(); err != nil {
		return err
	}
	if l := m.state.Locks.Of(q.Name); l == nil || l.Owner != m.members.Self() || l.Fence != q.Fence {
		return nil
	}
	_, err := m.propose(chronicle.Unlock{Name: q.Name, Fence: q.Fence})
	return err
}

// Locks returns the locks that are held, as far as this peer knows. The list is not to be changed, and stays as it is.
func (m *Machine) Locks() []lock.Lock { return m.state.Locks.Locks }

// renewLock returns the fence of a lock that this host still has, or 0 if it has ended. Before it says that the lock stands, a
// majority of the voters must have sent something since the call came: what gossip believes of them may be many seconds old,
// and the others end the locks of a host that is silent.
func (m serving) renewLock(q *RenewalRequest) (fence uint64, err error) {
	if err := m.members.Ready(); err != nil {
		return 0, err
	}
	if l := m.state.Locks.Of(q.Name); l == nil || l.Owner != m.members.Self() || l.Fence != q.Fence {
		if m.members.View().CutOff() {
			return 0, m.waitForMajority() // it may have got the lock without knowing it yet
		}
		return 0, nil
	}
	c, v := m.call, m.members.View()
	first := c.askedAt.IsZero()
	if first {
		c.askedAt = m.now
	}
	silent := slices.DeleteFunc(m.state.Voters(), func(id peer.ID) bool { return id == v.Self || v.HeardSince(id, c.askedAt) })
	if v.Majority(slices.DeleteFunc(m.state.Voters(), func(id peer.ID) bool { return slices.Contains(silent, id) })) {
		return q.Fence, nil
	}
	if first {
		for _, id := range silent {
			m.members.Greet(id)
		}
	}
	return 0, m.waitForMajority()
}

// isRenewing reports whether a call waits for what other peers send.
func (m *Machine) isRenewing() bool {
	return slices.ContainsFunc(m.calls.waiting, func(c *Call) bool { _, is := c.Request.(*RenewalRequest); return is })
}
