package ipam

import (
	"iter"
	"slices"
	"time"

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
	kept     bool                // it is on disk, or will be with this step
	since    time.Time           // when it was first proposed
	over     bool                // it is settled, or not wanted any more
}

func (p *proposal) last() uint64 { return p.commands[len(p.commands)-1].Number }

// known reports whether it is settled, and this peer knows what became of it.
func (p *proposal) known() bool { return p.over && len(p.outcomes) == len(p.commands) }

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

func proposalKey(actions []chronicle.Action) string {
	batch := make([]chronicle.Command, len(actions))
	for i, a := range actions {
		batch[i] = chronicle.Command{Action: a}
	}
	return string(chronicle.EncodeBatch(batch))
}

// proposed returns the proposal of the same actions that is not settled, or nil.
func (m *Machine) proposed(key string) *proposal {
	for _, p := range m.proposals {
		if p.key == key {
			return p
		}
	}
	return nil
}

// addProposal begins a proposal. One that is kept is on disk before it leaves.
func (m *Machine) addProposal(key string, actions []chronicle.Action, kept bool) *proposal {
	p := &proposal{key: key, commands: make([]chronicle.Command, len(actions)), kept: kept, since: m.now}
	for i, a := range actions {
		m.number++
		p.commands[i] = chronicle.Command{Author: m.self, Number: m.number, Action: a}
	}
	if len(m.proposals) == 0 {
		m.submittedAt, m.submitTries = m.now, 0
	}
	m.proposals = append(m.proposals, p)
	m.submitted = false
	return p
}

// endProposal has a proposal be over: it goes from the disk, and those who wait for it see that.
func (m *Machine) endProposal(p *proposal) {
	p.over = true
	m.dropAside(p.last())
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
		m.endProposal(p)
		settled = append(settled, p)
		return true
	})
	if len(settled) > 0 {
		m.submittedAt, m.submitTries, m.submitted = m.now, 0, false
	}
	return settled
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
