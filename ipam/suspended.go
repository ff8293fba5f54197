package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/suspend"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A peer is suspended when its database must not be used as it stands, and an operator has to
// decide. It stays at the slot that it knows: it follows no more slots, so that nothing of its
// space changes hands under the containers of its host. It answers an engine that starts, serves
// releases, hands out nothing, votes on nothing and asks for no admission. Status says what
// happened, and which command ends it.

// stopIf has this peer take part in nothing any more, if it was suspended just now.
func (m *Machine) stopIf(suspended bool) {
	if suspended {
		m.members.Check.Stop()
		m.log.Stop()
		m.calls.changed = true
	}
}

// ownStart is this start of this peer.
func (m *Machine) ownStart() cluster.Start {
	return cluster.Start{Boot: m.members.Me.Boot(), Nonce: m.members.Me.Nonce()}
}

// checkStart holds a frame against the latest known start of its sender. One
// of an earlier start is late, or its database went back in time or was
// copied; the sender can tell, so it is told (protocol, 6.6).
func (m *Machine) checkStart(f *wire.Frame) (counts, later bool) {
	is := cluster.Start{Boot: f.Boot, Nonce: f.Nonce}
	if counts, later = m.members.Contacts.TakeStart(m.members.View(), f.From, is); !counts {
		known := m.members.Contacts.Of(f.From).Start
		m.send(f.From, wire.Copied{Boot: is.Boot, Nonce: is.Nonce, KnownBoot: known.Boot, KnownNonce: known.Nonce})
	}
	if later {
		m.trade.Restarted(f.From)
		m.log.Restarted(f.From)
	}
	return counts, later
}

// takeCopied learns that a peer refuses this one.
func (m *Machine) takeCopied(from peer.ID, q wire.Copied) {
	surpassed, suspended := m.members.Suspension.TakeCopied(m.members.View(), m.ownStart(), from, q)
	if surpassed {
		m.saveIdentity()
	}
	m.stopIf(suspended)
}

// checkVeto sees whether the next slot was decided, as another peer says, without the
// vote of this one where that is needed, as of one that is alone or the first of two. It
// would have accepted a value, on its disk, before anybody could learn of it. One that
// has dissolved a cluster may come to it again, having forgotten it on purpose.
func (m *Machine) checkVeto() {
	if m.state.Slot > 0 && !m.log.HasAccepted() && !m.members.Seeker.HasGivenWay() && m.members.View().HasVeto() {
		m.stopIf(m.members.Suspension.Outlive("others know a decision (slot %d) that needs the vote of this peer, but it does not know that one", m.state.Slot+1))
	}
}

// follows reports whether this peer may apply a batch that was decided. It suspends one whose
// space the batch gives up, or whose database the batch shows to be an old one: that must happen
// before, or the space would be gone from under its containers.
func (m *Machine) follows(batch []chronicle.Command) bool {
	for _, c := range batch {
		if c.Author == m.members.Self() && !m.knowsNumber(c.Number) {
			return false
		}
	}
	if !m.lacks(rule.Suspend) {
		suspended, err := m.members.Suspension.LookFor(m.members.View(), batch)
		if err != nil {
			m.log.Fail(err)
		}
		m.stopIf(suspended)
	}
	return !m.members.IsSuspended()
}

// followsTo is follows for a state at a later slot.
func (m *Machine) followsTo(state *chronicle.State) bool {
	if !m.knowsNumber(state.Number(m.members.Self())) {
		return false
	}
	if retires := m.members.Wish.IsLeaving() && !m.members.Wish.IsForced(); !retires && !m.lacks(rule.Suspend) {
		m.stopIf(m.members.Suspension.LookAt(m.members.Self(), state))
	}
	return !m.members.IsSuspended()
}

// knowsNumber reports whether this peer has given a command that number. It suspends one that has not: numbers are on disk
// before they leave, so its database went back in time.
func (m *Machine) knowsNumber(number uint64) bool {
	if number <= m.log.Number() || m.lacks(rule.Old) {
		return true
	}
	m.stopIf(m.members.Suspension.Outlive("others have request %d of this peer, but it knows only %d", number, m.log.Number()))
	return false
}

// takeUsedUp learns that this peer will never be admitted. One that knows that it has left stays out as it is.
func (m *Machine) takeUsedUp(from peer.ID) {
	if m.state.Slot > 0 && !m.members.IsMember() && !m.members.Wish.HasLeft() {
		m.stopIf(m.members.Suspension.TakeUsedUp(m.members.View().NameOf(from)))
	}
}

// meetLoss suspends this peer if its space was given up as an earlier release had it, which
// applied the slot that did so.
func (m *Machine) meetLoss() {
	if !m.members.Wish.HasLeft() {
		m.stopIf(m.members.Suspension.LookAt(m.members.Self(), m.state))
	}
	m.stopIf(m.pools.HasStrays() && m.members.Suspension.Lost())
}

// trust has a peer go on with a database that was moved, as an operator states. It asks the
// others as after a start of the host: it may have been given up while the data was moved.
func (m *Machine) trust() error {
	reason := m.members.Suspension.Reason()
	if m.lacks(rule.Trust) {
		reason = suspend.OtherPlace
	}
	switch reason {
	case suspend.None:
		return failf(ErrBadRequest, "ringlet on %s uses its database already: see ringlet status", m.cfg.Name)
	case suspend.OtherPlace:
	case suspend.GivenUp, suspend.OldDatabase, suspend.Copied:
		return failf(ErrBadRequest, "the database of %s cannot be trusted, because %s: run ringlet rejoin on that host, and it starts over as a new peer", m.cfg.Name, m.members.Suspension.Why())
	default:
		return m.usable()
	}
	m.members.Suspension.Trust(m.cfg.Place)
	m.enterCluster()
	m.calls.changed = true
	return nil
}

// standingHolder answers a container that asks for an address with an engine that starts, while this
// peer is suspended: it has just what this peer's own record says that it has, and a list of the
// engine has shown it with that since this process started, so that the others are warned of it.
// What ran before the host was off may be somebody else's by now.
func (m *Machine) standingHolder(q *AddressRequest) (AddressGrant, bool) {
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

// endOfSuspension says what ends it.
func (m *Machine) endOfSuspension() string {
	switch m.members.Suspension.Reason() {
	case suspend.OldDatabase:
		if m.members.View().HasVeto() && !m.members.View().Alone() {
			return "disable the plugin here; on another host of the cluster run ringlet recover --i-know-the-others-are-gone, because the cluster decides nothing without this host; then enable the plugin here, and run ringlet rejoin"
		}
	case suspend.OtherPlace:
		if m.knowsNobody() {
			return "if the data was moved here and no other copy of it runs, run ringlet trust on this host; else disable the plugin, remove its data, and enable it again"
		}
		return "if the data was moved here and no other copy of it runs, run ringlet trust on this host; else run ringlet rejoin, and it starts over as a new peer"
	case suspend.Copied:
		return "on the host whose database is the copy, run ringlet rejoin; then start the plugin on the other one again"
	case suspend.Differs:
		return "keep both databases, and report it"
	default:
	}
	return "run ringlet rejoin on this host: it starts over as a new peer, and its containers run on"
}
