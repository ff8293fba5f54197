package ipam

import (
	"iter"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// proposal is some commands of this peer that are on their way to be decided
// together.
type proposal struct {
	key      string // what is proposed, without number
	commands []chronicle.Command
	outcomes []chronicle.Outcome // those that have come
	calls    []*Call             // that wait for it
	aside    bool                // it is on disk, with the ranges that are set aside for it
	since    time.Time           // when it was first proposed
}

func (p *proposal) last() uint64 { return p.commands[len(p.commands)-1].Number }

// underWay yields the actions of this peer's commands that are not settled, in
// order.
func (m *Machine) underWay() iter.Seq[chronicle.Action] {
	return func(yield func(chronicle.Action) bool) {
		for _, p := range m.proposals {
			for _, c := range p.commands {
				if !yield(c.Action) {
					return
				}
			}
		}
	}
}

// isUnderWay reports whether there is such an action among those.
func (m *Machine) isUnderWay(such func(chronicle.Action) bool) bool {
	for a := range m.underWay() {
		if such(a) {
			return true
		}
	}
	return false
}

// patience is how long a command may take before another peer is asked to
// propose it.
const patience = time.Second

// propose has the actions decided as commands of this peer, all in one slot.
// It returns what became of them once that is known: at once if this peer is
// its own electorate (protocol, 2.8); else the call that is being served waits,
// and is tried again when they are settled. What is on its
// way already is not proposed twice.
//
// A range that a command takes from this peer is set aside before the command
// leaves, and until it is settled (protocol, 3.2).
func (m *Machine) propose(actions ...chronicle.Action) ([]chronicle.Outcome, error) {
	key := proposalKey(actions)
	if c := m.current; c != nil {
		if out, ok := c.outcomes[key]; ok {
			delete(c.outcomes, key)
			return out, nil
		}
	}
	i := slices.IndexFunc(m.proposals, func(p *proposal) bool { return p.key == key })
	if i < 0 {
		if err := m.mayPropose(actions); err != nil {
			return nil, err
		}
		m.addProposal(key, actions)
		i = len(m.proposals) - 1
	}
	p := m.proposals[i]
	m.route()
	m.drain()
	if m.broken != nil {
		return nil, m.usable()
	}
	if p.last() <= m.state.Number(m.self) {
		return p.outcomes, nil
	}
	if c := m.current; c != nil && !slices.Contains(p.calls, c) {
		p.calls = append(p.calls, c)
	}
	return nil, m.waitForMajority()
}

// waitsForDecision reports whether the call that is being served waits for a
// command of its own.
func (m *Machine) waitsForDecision() bool {
	return m.current != nil && slices.ContainsFunc(m.proposals, func(p *proposal) bool { return slices.Contains(p.calls, m.current) })
}

// keepWanted has what the call that is being served waits for stay wanted also if the process ends,
// but for what may be taken back.
func (m *Machine) keepWanted() {
	for _, p := range m.proposals {
		if slices.Contains(p.calls, m.current) && !slices.ContainsFunc(p.commands, revocable) {
			p.aside = true
		}
	}
}

// background is propose where nobody waits.
func (m *Machine) background(actions ...chronicle.Action) {
	if len(actions) == 0 {
		return
	}
	current := m.current
	m.current = nil
	_, _ = m.propose(actions...) // whoever wants it looks again
	m.current = current
}

// mayPropose reports what keeps this peer from proposing anything.
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

func proposalKey(actions []chronicle.Action) string {
	batch := make([]chronicle.Command, len(actions))
	for i, a := range actions {
		batch[i] = chronicle.Command{Action: a}
	}
	return string(chronicle.EncodeBatch(batch))
}

func (m *Machine) addProposal(key string, actions []chronicle.Action) {
	p := &proposal{key: key, commands: make([]chronicle.Command, len(actions)), since: m.now}
	for i, a := range actions {
		m.number++
		p.commands[i] = chronicle.Command{Author: m.self, Number: m.number, Action: a}
		if q, r := m.taken(a); q != nil && !m.lacks(ruleAside) {
			q.space.SetAside(r)
			p.aside = !m.lacks(ruleAsideDisk)
		}
	}
	if len(m.proposals) == 0 {
		m.submittedAt, m.submitTries = m.now, 0
	}
	m.proposals = append(m.proposals, p)
	m.submitted = false
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

// takeSettled ends the proposals of which the state knows the last number, or a
// later one: nothing of them can happen any more (protocol, 2.7). It returns them.
func (m *Machine) takeSettled() []*proposal {
	known := m.state.Number(m.self)
	var settled []*proposal
	m.proposals = slices.DeleteFunc(m.proposals, func(p *proposal) bool {
		if p.last() > known {
			return false
		}
		if p.aside {
			m.dropAside(p.last())
		}
		settled = append(settled, p)
		return true
	})
	if len(settled) > 0 {
		m.submittedAt, m.submitTries, m.submitted = m.now, 0, false
	}
	return settled
}

// settleProposals has calls and spaces follow proposals that are settled. The calls
// that waited get the outcomes; where those are not known, because the slot
// came in a snapshot, the calls look at the state and decide anew.
func (m *Machine) settleProposals(settled []*proposal) {
	if len(settled) == 0 {
		return
	}
	for _, p := range settled {
		if len(p.outcomes) == len(p.commands) {
			for _, c := range p.calls {
				c.hear(p)
			}
		}
		m.restoreAside(p)
	}
	m.setAsideAgain()
	m.holdRestored(settled)
	m.changed = true
}

// hear keeps for a call what became of a proposal that it waited for.
func (c *Call) hear(p *proposal) {
	if c.outcomes == nil {
		c.outcomes = map[string][]chronicle.Outcome{}
	}
	c.outcomes[p.key] = p.outcomes
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

// restoreAside ends the setting aside of a settled proposal: the rings say
// now whose its ranges are.
func (m *Machine) restoreAside(p *proposal) {
	if !p.aside {
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
			if q, r := m.taken(c.Action); q != nil && p.aside {
				m.holdHost(q, r)
				m.holdWarned(q, r)
			}
		}
	}
}

// setAsideAgain sets aside what proposals that are not settled take: one that
// is may have covered the same range.
func (m *Machine) setAsideAgain() {
	if m.lacks(ruleAside) {
		return
	}
	for _, p := range m.proposals {
		for _, c := range p.commands {
			if q, r := m.taken(c.Action); q != nil {
				q.space.SetAside(r)
			}
		}
	}
}

// noteOutcomes keeps what became of the commands of this peer.
func (m *Machine) noteOutcomes(outcomes []chronicle.Outcome) {
	for _, o := range outcomes {
		for _, p := range m.proposals {
			if o.Command.Author == m.self && p.commands[0].Number <= o.Command.Number && o.Command.Number <= p.last() {
				p.outcomes = append(p.outcomes, o)
			}
		}
	}
}

// route brings the commands of this peer to somebody who proposes them: the
// lowest live voter, the next one after a second, and then this peer itself
// (protocol, 2.6). All that are not settled go together, in order: a later
// number that is applied first would settle the earlier ones. A peer that was evicted, and
// perhaps forgotten, waits until it is back: most would be refused, and with that what
// somebody was told is to come.
func (m *Machine) route() {
	if len(m.proposals) == 0 || m.booting() || m.isSuspended() || m.outdated() || m.state.Gone(m.self) != nil && !m.left {
		return
	}
	if late := m.now.Sub(m.submittedAt); late >= patience || late < 0 {
		m.submittedAt, m.submitted = m.now, false
		m.submitTries++
	}
	if m.submitted {
		return
	}
	if m.reconsider(); len(m.proposals) == 0 {
		return
	}
	m.submitted = true
	to := m.self
	switch live := m.liveVoters(); {
	case m.submitTries < min(len(live), 2):
		to = live[m.submitTries]
	case len(live) > 0 && !m.member():
		to = live[m.submitTries%len(live)] // it has no part in a slot while it is not in the roster
	}
	if to == m.self {
		m.inbox[m.self] = m.appendUnsettled(m.inbox[m.self][:0])
		m.run()
		return
	}
	m.submitTo = to
}

// submit sends what route has found somebody to propose, at the end of a step: of many commands
// that are proposed in one step each would be sent with all before it otherwise.
func (m *Machine) submit() {
	if m.submitTo == peer.None {
		return
	}
	if batch := m.unsettled(); len(batch) > 0 {
		m.send(m.submitTo, wire.Submit{Batch: chronicle.EncodeBatch(batch)})
	}
	m.submitTo = peer.None
}

// maxSubmit is how many commands are submitted at once.
const maxSubmit = 1000

// unsettled returns the commands of this peer that are not settled, in order.
func (m *Machine) unsettled() []chronicle.Command { return m.appendUnsettled(nil) }

// appendUnsettled is unsettled in the memory of an empty batch: with many that
// wait this peer's own is made anew for each that comes.
func (m *Machine) appendUnsettled(batch []chronicle.Command) []chronicle.Command {
	for _, p := range m.proposals {
		if len(batch) > 0 && len(batch)+len(p.commands) > maxSubmit {
			break
		}
		batch = append(batch, p.commands...)
	}
	return batch
}

// takeSubmit takes in the commands of another peer, to propose them.
func (m *Machine) takeSubmit(f *wire.Frame, q wire.Submit) {
	from := f.From
	if gone := m.state.Gone(from); gone != nil && f.Slot < gone.Evicted {
		m.sendSlots(from, f.Slot) // it has not heard of it, and waits once it has: see route
		return
	}
	batch, err := chronicle.DecodeBatch(q.Batch)
	if err != nil || m.state.Slot == 0 || !m.member() || !chronicle.Known(batch) {
		return
	}
	for i, c := range batch {
		if c.Author != from || i > 0 && c.Number <= batch[i-1].Number {
			return // peers speak for themselves
		}
	}
	m.inbox[from] = batch
	m.run()
}

// pruneInbox drops the commands that the state has settled.
func (m *Machine) pruneInbox() {
	if m.lacks(ruleOnce) {
		return
	}
	for author, batch := range m.inbox {
		known := m.state.Number(author)
		batch = slices.DeleteFunc(batch, func(c chronicle.Command) bool { return c.Number <= known })
		if len(batch) == 0 {
			delete(m.inbox, author)
			continue
		}
		m.inbox[author] = batch
	}
}

// gather returns what the next slot shall hold: what authors have brought,
// in order of author and number.
func (m *Machine) gather() []chronicle.Command {
	m.pruneInbox()
	if m.lacks(ruleOnce) {
		defer clear(m.inbox) // so that it ends at all
	}
	authors := make([]peer.ID, 0, len(m.inbox))
	for author := range m.inbox {
		authors = append(authors, author)
	}
	slices.SortFunc(authors, peer.ID.Compare)
	var batch []chronicle.Command
	for _, author := range authors {
		if len(batch) < maxSubmit {
			batch = append(batch, m.inbox[author]...)
		}
	}
	return batch
}
