package ipam

import (
	"iter"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// propose has the actions decided as commands of this peer, all in one slot.
// It returns what became of them once that is known: at once if this peer is
// its own electorate (protocol, 2.8); else the call that is being served waits,
// and is tried again when they are settled. What is on its
// way already is not proposed twice.
//
// A range that a command takes from this peer is set aside before the command
// leaves, and until it is settled (protocol, 3.2).
func (m *Machine) propose(actions ...chronicle.Action) ([]chronicle.Outcome, error) {
	c, key := m.current, proposalKey(actions)
	if out, ok := c.heard(key); ok {
		return out, nil
	}
	p, err := m.decide(key, actions)
	switch {
	case err != nil:
		return nil, err
	case p.last() <= m.state.Number(m.self):
		return p.outcomes, nil
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
	current := m.current
	m.current = nil
	_, _ = m.decide(proposalKey(actions), actions) // whoever wants it looks again
	m.current = current
}

// decide returns the proposal of the actions, which may be settled with that.
func (m *Machine) decide(key string, actions []chronicle.Action) (*proposal, error) {
	p := m.proposed(key)
	if p == nil {
		if err := m.mayPropose(actions); err != nil {
			return nil, err
		}
		p = m.addProposal(key, actions, m.setAside(slices.Values(actions)))
	}
	m.route()
	m.drain()
	if m.broken != nil {
		return nil, m.usable()
	}
	return p, nil
}

// mayPropose reports what keeps this peer from proposing the actions.
func (m *Machine) mayPropose(actions []chronicle.Action) error {
	switch {
	case m.broken != nil:
		return m.usable()
	case m.outdated():
		return m.errOutdated()
	case m.state.Slot == 0 && !m.founding || m.state.Slot > 0 && !m.member():
		return m.waitForCluster()
	case m.alone():
		return nil
	}
	// In space that this peer knows to be its own, and of which it does not
	// know yet what is in use there, containers may live: it gives up nothing
	// but what the engine's list itself shows to be kept back, which is set
	// aside before anything is handed out, and an address on which that shows
	// nobody, to who has found it in use, or as what a network keeps back; and a
	// pool without a network, which makes room for one that the list has.
	for _, a := range actions {
		if _, reserves := a.(chronicle.Reserve); reserves && m.listing {
			continue
		}
		p, r := m.taken(a)
		if m.whole && p != nil && !slices.Contains(m.listed, p.CIDR) {
			continue
		}
		switch a.(type) {
		case chronicle.Give, chronicle.Reserve:
			if p.shownFree(r) {
				continue
			}
		}
		if p != nil && slices.ContainsFunc(p.mine, r.Overlaps) {
			return m.awaitList()
		}
	}
	return nil
}

// taken returns the pool and range that an action of this peer takes from it,
// or may take, or nil.
func (m *Machine) taken(a chronicle.Action) (*pool, addr.Range) {
	switch a := a.(type) {
	case chronicle.Close:
		return m.pools[a.Pool], a.Range
	case chronicle.Give:
		return m.pools[a.Pool], a.Range
	case chronicle.Reserve:
		return m.pools[a.Pool], a.Range
	}
	return nil, addr.Range{}
}

// setAside sets aside what the actions take, and reports whether that is to be on disk
// before they leave.
func (m *Machine) setAside(actions iter.Seq[chronicle.Action]) (keep bool) {
	if m.lacks(ruleAside) {
		return false
	}
	for a := range actions {
		if p, r := m.taken(a); p != nil {
			p.space.SetAside(r)
			keep = !m.lacks(ruleAsideDisk)
		}
	}
	return keep
}

// settleProposals has the spaces follow proposals that are settled.
func (m *Machine) settleProposals(settled []*proposal) {
	if len(settled) == 0 {
		return
	}
	for _, p := range settled {
		m.restoreAside(p)
	}
	m.setAside(m.underWay()) // a settled one may have covered the same range
	m.holdRestored(settled)
	m.changed = true
}

// restoreAside ends the setting aside of a settled proposal: the rings say
// now whose its ranges are.
func (m *Machine) restoreAside(p *proposal) {
	if !p.kept {
		return
	}
	for _, c := range p.commands {
		if q, r := m.taken(c.Action); q != nil {
			q.space.Restore(r)
		}
	}
}

// holdRestored holds the host's addresses in what proposals had set aside and is this
// peer's still, or again.
func (m *Machine) holdRestored(settled []*proposal) {
	for _, p := range settled {
		for _, c := range p.commands {
			if q, r := m.taken(c.Action); q != nil && p.kept {
				m.holdHost(q, r)
				m.holdWarned(q, r)
			}
		}
	}
}

// waitsForDecision reports whether the call that is being served waits for a
// command of its own.
func (m *Machine) waitsForDecision() bool {
	return m.current != nil && slices.ContainsFunc(m.current.proposed, func(p *proposal) bool { return !p.over })
}

// keepWanted has what the call that is being served waits for stay wanted also if the process ends,
// but for what may be taken back.
func (m *Machine) keepWanted() {
	for _, p := range m.current.proposed {
		if !p.over && !slices.ContainsFunc(p.commands, revocable) {
			p.kept = true
		}
	}
}

// hear looks at what became of the proposals that a call waited for. Where that is
// not known, because the slot came in a snapshot, or nobody wants it any more, the
// call looks at the state and decides anew.
func (c *Call) hear() {
	c.proposed = slices.DeleteFunc(c.proposed, func(p *proposal) bool { return p.over && !p.known() })
	for _, p := range c.proposed {
		if !p.known() {
			continue
		}
		for _, o := range p.outcomes {
			switch o.Command.Action.(type) {
			case chronicle.CreatePool:
				if o.Refused == "" {
					c.made = o.Pool
				}
			case chronicle.DeletePool:
				c.removed = c.removed || o.Refused == ""
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
	c.proposed = slices.DeleteFunc(c.proposed, func(p *proposal) bool {
		if p.key != key || !p.known() {
			return false
		}
		out, ok = p.outcomes, true
		return true
	})
	return out, ok
}
