package ipam

import (
	"iter"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
)

// propose has the actions decided as commands of this peer, all in one slot.
// It returns what became of them once that is known: at once if this peer is
// its own electorate (protocol, 2.8); else the call that is being served waits,
// and is tried again when they are settled. What is on its
// way already is not proposed twice.
//
// A range that a command takes from this peer is set aside before the command
// leaves, and until it is settled (protocol, 3.2).
func (m serving) propose(actions ...chronicle.Action) ([]chronicle.Outcome, error) {
	c, key := m.call, replog.Key(actions)
	if out, ok := c.heard(key); ok {
		return out, nil
	}
	p, err := m.decide(key, actions)
	switch {
	case err != nil:
		return nil, err
	case p.IsKnown():
		return p.Outcomes(), nil
	case c != nil && !slices.Contains(c.proposed, p):
		c.proposed = append(c.proposed, p)
	}
	return nil, m.waitForMajority()
}

// background is propose where nobody waits.
func (m *Machine) background(actions ...chronicle.Action) {
	if len(actions) == 0 {
		return
	}
	_, _ = m.decide(replog.Key(actions), actions) // whoever wants it looks again
}

// decide returns the proposal of the actions, which may be settled with that.
func (m *Machine) decide(key string, actions []chronicle.Action) (*replog.Proposal, error) {
	p := m.log.Proposed(key)
	if p == nil {
		if err := m.mayPropose(actions); err != nil {
			return nil, err
		}
		p = m.log.Propose(key, actions, m.setAside(actions))
	}
	m.members.Route()
	m.drain()
	if m.log.Err() != nil {
		return nil, m.members.Usable()
	}
	return p, nil
}

// mayPropose reports what keeps this peer from proposing the actions.
func (m *Machine) mayPropose(actions []chronicle.Action) error {
	if err := m.members.MayPropose(); err != nil || m.members.View().Alone() {
		return err
	}
	// In space that this peer knows to be its own, and of which it does not
	// know yet what is in use there, containers may live: it gives up nothing
	// but what the engine's list itself shows to be kept back, which is set
	// aside before anything is handed out, and an address on which that shows
	// nobody, to who has found it in use, or as what a network keeps back; and a
	// pool without a network, which makes room for one that the list has.
	for _, a := range actions {
		if _, reserves := a.(chronicle.Reserve); reserves && m.pools.IsListing() {
			continue
		}
		p, r := m.taken(a)
		if p == nil || m.survey.IsWhole() && !slices.Contains(m.engine.Subnets(), p.CIDR) {
			continue
		}
		switch a.(type) {
		case chronicle.Give, chronicle.Reserve:
			if p.ShowsFree(r) {
				continue
			}
		}
		if slices.ContainsFunc(p.Mine, r.Overlaps) {
			return m.awaitList()
		}
	}
	return nil
}

// taken returns the pool and range that an action of this peer takes from it,
// or may take, or nil.
func (m *Machine) taken(a chronicle.Action) (*pool.Pool, addr.Range) {
	k, r, takes := chronicle.Takes(a)
	if !takes {
		return nil, r
	}
	return m.pools.Of(k), r
}

// setAside sets aside what the actions take, and reports whether that is to be on disk
// before they leave.
func (m *Machine) setAside(actions []chronicle.Action) (keep bool) {
	if m.lacks(rule.Aside) {
		return false
	}
	for _, a := range actions {
		if p, r := m.taken(a); p != nil {
			p.Space.SetAside(r)
			keep = !m.lacks(rule.AsideDisk)
		}
	}
	return keep
}

// settleProposals has the spaces follow proposals that are settled.
func (m *Machine) settleProposals(settled []*replog.Proposal) {
	if len(settled) == 0 {
		return
	}
	for p, r := range m.asides(settled) {
		p.Space.Restore(r) // the rings say now whose it is
	}
	m.setAside(m.log.UnderWay()) // a settled one may have covered the same range
	for p, r := range m.asides(settled) {
		p.SettleAt(r) // the host may have addresses in what is this peer's still, or again
	}
	m.calls.changed = true
}

// asides yields what proposals have set aside.
func (m *Machine) asides(proposals []*replog.Proposal) iter.Seq2[*pool.Pool, addr.Range] {
	return func(yield func(*pool.Pool, addr.Range) bool) {
		for _, p := range proposals {
			if !p.IsKept() {
				continue
			}
			for a := range p.Actions() {
				if of, r := m.taken(a); of != nil && !yield(of, r) {
					return
				}
			}
		}
	}
}

// opposes reports whether a command of this peer is under way that does the opposite of what is asked for (R6): who asks waits
// until that is settled.
func (m *Machine) opposes(such func(chronicle.Action) bool) bool {
	return !m.lacks(rule.Opposite) && m.log.IsUnderWay(such)
}

// awaitEarlier has what this peer said before it started anew be settled, which may be the opposite of what is asked for (R6): of
// that it knows those commands alone that are on disk. One that has no effect comes behind them. The error makes the call wait.
func (m serving) awaitEarlier() error {
	if !m.log.AwaitsEarlier() || m.lacks(rule.Opposite) {
		return nil
	}
	_, err := m.propose(chronicle.Unuse{}) // of no pool
	return err
}

// waitsForDecision reports whether the call that is being served waits for a
// command of its own.
func (m serving) waitsForDecision() bool {
	return slices.ContainsFunc(m.call.proposed, func(p *replog.Proposal) bool { return !p.IsOver() })
}

// keepWanted has what the call that is being served waits for stay wanted also if the process ends,
// but for what may be taken back.
func (m serving) keepWanted() {
	for _, p := range m.call.proposed {
		p.Keep()
	}
}

// hear looks at what became of the proposals that a call waited for. Where that is
// not known, because the slot came in a snapshot, or nobody wants it any more, the
// call looks at the state and decides anew.
func (c *Call) hear() {
	c.proposed = slices.DeleteFunc(c.proposed, func(p *replog.Proposal) bool { return p.IsOver() && !p.IsKnown() })
	for _, p := range c.proposed {
		if !p.IsKnown() {
			continue
		}
		for _, o := range p.Outcomes() {
			switch o.Command.Action.(type) {
			case chronicle.CreatePool:
				if o.Refused == "" {
					c.pool.made = o.Pool
				}
			case chronicle.DeletePool:
				c.pool.removed = c.pool.removed || o.Refused == ""
			}
		}
	}
}

// heard returns, once, what became of a proposal that a call waited for, if that is known.
func (c *Call) heard(key string) (out []chronicle.Outcome, ok bool) {
	if c == nil {
		return nil, false
	}
	c.hear()
	c.proposed = slices.DeleteFunc(c.proposed, func(p *replog.Proposal) bool {
		if p.Key() != key || !p.IsKnown() {
			return false
		}
		out, ok = p.Outcomes(), true
		return true
	})
	return out, ok
}
