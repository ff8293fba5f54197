package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
)

const (
	// tendEvery is how often a peer with others looks after its pools.
	tendEvery = time.Second
	// restAfter is for how long nothing has happened, but that others were heard of, when a peer is at rest, and
	// restEvery how often it is to be woken then: to wake costs an idle host more than all that it does when it is
	// awake, and what it waits for is minutes away. Whom others probe is stepped more often by that, and need not be
	// woken at all. By how much it may sleep unnoticed see wake.
	restAfter = time.Minute
	restEvery = 2 * time.Second
)

// tended reports whether it is not time yet to tend again.
func (m *Machine) tended() bool {
	since := m.out.Nanos() - m.pace.tendedAt
	return since >= 0 && since < int64(tendEvery)
}

// isQuiescent reports whether nothing is under way, and nothing has happened for so long that whatever
// is next is not in a hurry. Where calls wait, some wait for nothing but time.
func (m *Machine) isQuiescent() bool {
	return m.out.Nanos()-m.pace.activeAt >= int64(restAfter) && m.state.Slot > 0 &&
		!m.members.NewDB.IsUnsure() && len(m.calls.waiting) == 0 && !m.doubts.Any()
}

// noteActivity notes whether the step has been of any consequence: something was written down, said or found. To hear that
// others live is not, nor to be told of the host what is known.
func (m *Machine) noteActivity() {
	if len(m.fx.Save)+len(m.fx.Send)+len(m.fx.Note) > 0 {
		m.pace.activeAt = m.out.Nanos()
	}
}

// tend does in the background what keeps this peer ready: it becomes active,
// gives back what it does not need, leaves, takes over from its former self,
// and says what it has to spare.
func (m *Machine) tend() {
	if m.pools.HasUnscanned() && m.members.Ready() == nil {
		m.scanNewPools()
	}
	if m.tended() {
		return
	}
	if actions := m.members.LeaveAgain(); len(actions) > 0 {
		m.pace.tendedAt = m.out.Nanos()
		m.background(actions...)
	}
	if m.members.Ready() != nil {
		return
	}
	m.pace.tendedAt = m.out.Nanos()
	m.trade.Prune()
	if m.background(m.members.Raise()...); m.members.Ready() != nil {
		return // to propose that it has learned of a slot that evicts it
	}
	m.meetUnlisted(m.members.View().Alone() && len(m.state.Pools) == 0)
	m.background(m.members.TellZone()...)
	alone := m.members.StaysAlone()
	cutOff := !alone && m.members.View().CutOff()
	m.members.Tend(m.background)
	for _, p := range m.pools.Sorted() {
		if !alone {
			m.survey.Host(p)
			if !cutOff {
				m.background(p.KeptEnough(m.cfg.Rest, m.members.IsDraining())...)
			}
			m.closeBehind(p)
		}
		m.tendUse(p)
		m.retirePool(p)
	}
	if !alone {
		m.background(m.members.Next()...)
		m.trade.Announce(m.spaces())
	}
}

// closeBehind gives back space that this peer has not needed for a while. A peer that drains keeps nothing.
func (m *Machine) closeBehind(p *pool.Pool) {
	if m.members.IsDraining() {
		m.dropUnused(p)
		m.background(m.trade.Bequeath(p.Pool, p.Space)...)
		return
	}
	m.background(m.trade.Behind(p.Pool, p.Space)...)
}

// dropUnused gives back what this host itself has in a pool without networks.
func (m *Machine) dropUnused(p *pool.Pool) {
	if p.MayBeUsed() {
		return
	}
	var own []addr.Range
	for o, kind := range p.Space.Kinds() {
		if kind.OfHost() && p.Space.Mine(o) && !m.closing(p, addr.One(o)) {
			own = append(own, addr.One(o))
		}
	}
	m.closeHost(p, own)
}

// unusedAfter is how long a pool must not have been used by anybody before it
// is removed.
const unusedAfter = time.Minute

// retirePool gives up a pool whose subnet was chosen and on which this host
// has no network any more, and removes it when nobody owns a part of it.
func (m *Machine) retirePool(p *pool.Pool) {
	if !p.Facts().Passes || p.MayBeUsed() {
		p.UnusedSince = time.Time{}
		return
	}
	if p.UnusedSince.IsZero() {
		p.UnusedSince = m.now
	}
	if !m.members.View().Lasted(p.UnusedSince, unusedAfter) {
		return
	}
	if len(p.Mine) > 0 {
		m.closeAll(p)
		return
	}
	if len(p.Parties()) > 0 {
		return
	}
	if m.members.View().Leads() {
		m.background(chronicle.DeletePool{Pool: p.Key})
	}
}
