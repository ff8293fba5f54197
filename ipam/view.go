package ipam

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// Check returns what contradicts the invariants, as far as this peer can see
// them. It is slow, and meant for tests and for operators.
func (m *Machine) Check(now time.Time) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := m.log.Err(); err != nil {
		errs = append(errs, err)
	}
	if err := m.state.Check(); err != nil {
		bad("I2: %w", err)
	}
	if m.pools.Len() != len(m.state.Pools) {
		bad("this peer knows %d pools of %d", m.pools.Len(), len(m.state.Pools))
	}
	known := m.at(now).picture(m.pools.Sorted())
	for i, p := range m.pools.Sorted() {
		// A peer that was given up, and has applied that as an earlier release did, is suspended.
		p.Check(m.state.Pool(p.Key), m.members.IsSuspended(), bad)
		s := known.PoolStatus(&known.Pools[i], false)
		if sum := s.Held + s.Resting + s.Ready + s.Free + s.Reserved + s.Quarantined; sum != s.Size {
			bad("I8: pool %v: states add up to %d addresses of %d", p.CIDR, sum, s.Size)
		}
	}
	return errs
}

// Self returns this peer's ID, which it has from its first step on.
func (m *Machine) Self() peer.ID { return m.members.Self() }

// State returns what is agreed, as far as this peer knows. It must not be
// changed, and is valid until the next step.
func (m *Machine) State() *chronicle.State { return m.state }

// MayHandOut reports whether this peer would hand out an address, as far as it
// knows, or has handed it out: what no two peers may at the same time. What
// waits here for its name is held by nobody, and is not handed out once it is
// being given away. As long as it waits for lists (see AwaitsLists) it hands out
// nothing.
func (m *Machine) MayHandOut(cidr netip.Prefix, a netip.Addr) bool {
	p := m.pools.On(cidr)
	if p == nil {
		return false
	}
	o, ok := addr.OffsetOf(cidr, a)
	if !ok {
		return false
	}
	kind, held := p.Space.Holds(o)
	return held && kind != space.Kept && !pool.IsWarned(p.Space.Lookup(o)) || m.members.Ready() == nil && !m.AwaitsLists() && p.Space.Usable(o)
}

// AwaitsLists reports whether this peer chooses no address for now, since its
// database is new, and it is not known yet what containers have.
func (m *Machine) AwaitsLists() bool {
	return m.awaitList() != nil || m.members.NewDB.AwaitsOthers(m.members.View())
}

// Identity is what tells one start of a peer from all others.
type Identity struct {
	ID    peer.ID
	Name  peer.Name
	Boot  peer.Boot
	Nonce uint64
	// Known are other peers of the cluster, with the addresses at which they
	// were last, as the carrier wrote them.
	Known map[peer.ID]string
}

// Identity returns who this peer is, from its first step on.
func (m *Machine) Identity() Identity {
	return Identity{ID: m.members.Self(), Name: m.cfg.Name, Boot: m.members.Me.Boot(), Nonce: m.members.Me.Nonce(), Known: m.members.Known()}
}

// Gone is [membership.Membership.IsGone].
func (m *Machine) Gone(id peer.ID) bool { return m.members.IsGone(id) }
