package replog

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Proposal is some commands of this peer that are to be decided together.
type Proposal struct {
	key      string // what is proposed, without number
	commands []chronicle.Command
	outcomes []chronicle.Outcome // those that have come
	kept     bool                // it is on disk, or will be with this step
	onDisk   bool
	since    time.Time // when it was first proposed
	over     bool      // it is settled, or not wanted any more
}

// Key returns what is proposed; see [Key].
func (p *Proposal) Key() string { return p.key }

// Since returns when it was first proposed; the zero Time if that was before this start.
func (p *Proposal) Since() time.Time { return p.since }

// IsOver reports whether it is settled, or was withdrawn.
func (p *Proposal) IsOver() bool { return p.over }

// IsKnown reports whether it is settled, and this peer knows what became of it: it does not where that came in a snapshot.
func (p *Proposal) IsKnown() bool { return p.over && len(p.outcomes) == len(p.commands) }

// Outcomes returns what became of the commands, as far as that is known.
func (p *Proposal) Outcomes() []chronicle.Outcome { return p.outcomes }

// IsKept reports whether it is on disk, or will be before it leaves.
func (p *Proposal) IsKept() bool { return p.kept }

// Keep has it stay proposed also if the process ends. One that may be withdrawn, or is over, does not.
func (p *Proposal) Keep() {
	if !p.over && !slices.ContainsFunc(p.commands, isRevocable) {
		p.kept = true
	}
}

func isRevocable(c chronicle.Command) bool { return chronicle.IsRevocable(c.Action) }

// First returns what the first command does.
func (p *Proposal) First() chronicle.Action { return p.commands[0].Action }

// Last returns what the last command does.
func (p *Proposal) Last() chronicle.Action { return p.commands[len(p.commands)-1].Action }

// Actions yields what the commands do, in order.
func (p *Proposal) Actions() iter.Seq[chronicle.Action] {
	return func(yield func(chronicle.Action) bool) {
		for _, c := range p.commands {
			if !yield(c.Action) {
				return
			}
		}
	}
}

func (p *Proposal) last() uint64 { return p.commands[len(p.commands)-1].Number }

// proposals are the commands of this peer, and how far they have come.
type proposals struct {
	open   []*Proposal // those that are not settled
	number uint64      // the highest of a command
	onDisk uint64      // the highest on disk
	before uint64      // the highest from before this start
	sent   bool        // they have been routed, since there was another one
	sentAt time.Time
	tries  int
	to     peer.ID // who is to get them at the end of the step
}

// Key returns a key of actions: the same for the same ones.
func Key(actions []chronicle.Action) string {
	batch := make([]chronicle.Command, len(actions))
	for i, a := range actions {
		batch[i] = chronicle.Command{Action: a}
	}
	return string(chronicle.EncodeBatch(batch))
}

// Proposed returns the proposal of the key that is not settled, or nil.
func (l *Log) Proposed(key string) *Proposal {
	for _, p := range l.proposals.open {
		if p.key == key {
			return p
		}
	}
	return nil
}

// Propose begins a proposal. One that is kept is on disk before it leaves. [Log.Route] brings it on its way.
func (l *Log) Propose(key string, actions []chronicle.Action, kept bool) *Proposal {
	q := &l.proposals
	p := &Proposal{key: key, commands: make([]chronicle.Command, len(actions)), kept: kept, since: l.out.Now()}
	for i, a := range actions {
		q.number++
		p.commands[i] = chronicle.Command{Author: l.self, Number: q.number, Action: a}
	}
	if len(q.open) == 0 {
		q.sentAt, q.tries = l.out.Now(), 0
	}
	q.open = append(q.open, p)
	q.sent = false
	return p
}

// Pending returns how many commands of this peer are not settled.
func (l *Log) Pending() (n int) {
	for _, p := range l.proposals.open {
		n += len(p.commands)
	}
	return n
}

// ProposedSince returns when the oldest of the commands that are not settled was proposed.
func (l *Log) ProposedSince() (at time.Time, pending bool) {
	if len(l.proposals.open) == 0 {
		return at, false
	}
	return l.proposals.open[0].since, true
}

// UnderWay returns the actions of this peer's commands that are not settled, in order. While there are none it takes no
// memory: each look at a pool asks.
func (l *Log) UnderWay() (actions []chronicle.Action) {
	for _, p := range l.proposals.open {
		actions = slices.AppendSeq(actions, p.Actions())
	}
	return actions
}

// IsUnderWay reports whether there is such an action among those. It takes no memory: where many wait, each that excludes an address
// asks twice.
func (l *Log) IsUnderWay(such func(chronicle.Action) bool) bool {
	for _, p := range l.proposals.open {
		for a := range p.Actions() {
			if such(a) {
				return true
			}
		}
	}
	return false
}

// Number returns the highest number of a command of this peer.
func (l *Log) Number() uint64 { return l.proposals.number }

// AwaitsEarlier reports whether the state has not reached the commands from before this start: what these were is known of
// those alone that are on disk.
func (l *Log) AwaitsEarlier() bool { return l.state.Number(l.self) < l.proposals.before }

// end has a proposal be over: it goes from the disk, and those who wait for it see that.
func (l *Log) end(p *Proposal) {
	p.over = true
	if p.onDisk {
		p.onDisk = false
		l.out.Delete(Bucket, commandsKey(p.last()))
	}
}

// TakeSettled ends the proposals of which the state knows the last number, or a later one: nothing of them can happen any
// more (R45). It returns them.
func (l *Log) TakeSettled() []*Proposal {
	known := l.state.Number(l.self)
	settled := l.takeOut(func(p *Proposal) bool { return p.last() <= known })
	if len(settled) > 0 {
		l.proposals.sentAt, l.proposals.tries, l.proposals.sent = l.out.Now(), 0, false
	}
	return settled
}

// takeOut ends such proposals, and returns them.
func (l *Log) takeOut(such func(*Proposal) bool) (out []*Proposal) {
	l.proposals.open = slices.DeleteFunc(l.proposals.open, func(p *Proposal) bool {
		if !such(p) {
			return false
		}
		l.end(p)
		out = append(out, p)
		return true
	})
	return out
}

// Withdraw ends the proposals that nobody wants any more, and reports whether there was one. What was sent may still be
// decided. It is not sent again, and the peers that were to propose it are told.
func (l *Log) Withdraw(unwanted func(*Proposal) bool) bool {
	if len(l.takeOut(unwanted)) == 0 {
		return false
	}
	delete(l.inbox, l.self)
	if l.attempt != nil {
		l.begin() // with another value
	}
	l.proposals.sent = false
	for _, id := range l.peers.Live() {
		l.send(id, wire.Submit{Batch: chronicle.EncodeBatch(l.unsettled(nil))})
	}
	return true
}

// Drop ends all that was to be agreed with a cluster that is no more, and returns the proposals.
func (l *Log) Drop() []*Proposal {
	clear(l.inbox)
	return l.takeOut(func(*Proposal) bool { return true })
}

// noteOutcomes keeps what became of the commands of this peer.
func (l *Log) noteOutcomes(outcomes []chronicle.Outcome) {
	for _, o := range outcomes {
		for _, p := range l.proposals.open {
			if o.Command.Author == l.self && p.commands[0].Number <= o.Command.Number && o.Command.Number <= p.last() {
				p.outcomes = append(p.outcomes, o)
			}
		}
	}
}

// patience is how long a command may take before another peer is asked to propose it.
const patience = time.Second

// IsUnsent reports whether commands of this peer are to be routed: for the first time, or because they take too long.
func (l *Log) IsUnsent() bool {
	q := &l.proposals
	if len(q.open) == 0 {
		return false
	}
	if l.out.Passed(patience, q.sentAt) {
		q.sentAt, q.sent = l.out.Now(), false
		q.tries++
	}
	return !q.sent
}

// SendAgain has the commands of this peer be routed again.
func (l *Log) SendAgain() { l.proposals.sent = false }

// Route brings the commands of this peer to a peer that proposes them: the lowest live voter, the next one after a second,
// and then this peer itself (protocol, 2.6). All that are not settled go together, in order: a later number that is applied
// first would settle the earlier ones.
func (l *Log) Route() {
	q := &l.proposals
	if len(q.open) == 0 {
		return
	}
	q.sent = true
	to := l.self
	switch live := l.peers.Live(); {
	case q.tries < min(len(live), 2):
		to = live[q.tries]
	case len(live) > 0 && l.Member() == nil:
		to = live[q.tries%len(live)] // it has no part in a slot while it is not in the roster
	}
	if to == l.self {
		l.inbox[l.self] = l.unsettled(l.inbox[l.self][:0])
		l.Run()
		return
	}
	q.to = to
}

// submit sends the commands to whom they were routed, at the end of a step: of many commands that are proposed in one step
// each would be sent with all before it otherwise.
func (l *Log) submit() {
	to := l.proposals.to
	if to == peer.None {
		return
	}
	if batch := l.unsettled(nil); len(batch) > 0 {
		l.send(to, wire.Submit{Batch: chronicle.EncodeBatch(batch)})
	}
	l.proposals.to = peer.None
}

// MaxCommands is how many commands a batch has at most, unless a single proposal has more.
const MaxCommands = 1000

// maxBulk is from how many bytes of large commands on no other author's are added to a batch: a value has a limit (package
// wire), and half of it is left for the rest.
const maxBulk = wire.MaxValue / 2

// unsettled appends the commands of this peer that are not settled, in order, to an empty batch: with many that wait this
// peer's own is made again for each that comes.
func (l *Log) unsettled(batch []chronicle.Command) []chronicle.Command {
	for _, p := range l.proposals.open {
		if len(batch) > 0 && len(batch)+len(p.commands) > MaxCommands {
			break
		}
		batch = append(batch, p.commands...)
	}
	return batch
}

// takeSubmit takes in the commands of another peer, to propose them.
func (l *Log) takeSubmit(h wire.Header, q wire.Submit) {
	if gone := l.state.Gone(h.From); gone != nil && h.Slot < gone.Evicted {
		l.SendSlots(h.From, h.Slot) // it has not heard of it, and waits once it has
		return
	}
	batch, err := chronicle.DecodeBatch(q.Batch)
	if err != nil || l.Member() == nil || !chronicle.Known(batch) {
		return
	}
	for i, c := range batch {
		if c.Author != h.From || i > 0 && c.Number <= batch[i-1].Number {
			return // peers speak for themselves
		}
	}
	l.inbox[h.From] = batch
	l.Run()
}

// pruneInbox drops the commands that the state has settled.
func (l *Log) pruneInbox() {
	if l.lacks(rule.Once) {
		return
	}
	for author, batch := range l.inbox {
		known := l.state.Number(author)
		batch = slices.DeleteFunc(batch, func(c chronicle.Command) bool { return c.Number <= known })
		if len(batch) == 0 {
			delete(l.inbox, author)
			continue
		}
		l.inbox[author] = batch
	}
}

// gather returns what the next slot shall hold: what authors have brought, in order of author and number.
func (l *Log) gather() []chronicle.Command {
	l.pruneInbox()
	if l.lacks(rule.Once) {
		defer clear(l.inbox) // so that it ends at all
	}
	authors := make([]peer.ID, 0, len(l.inbox))
	for author := range l.inbox {
		authors = append(authors, author)
	}
	slices.SortFunc(authors, peer.ID.Compare)
	var batch []chronicle.Command
	bulk := 0
	for _, author := range authors {
		if len(batch) >= MaxCommands || bulk >= maxBulk {
			break
		}
		batch = append(batch, l.inbox[author]...)
		for _, c := range l.inbox[author] {
			bulk += chronicle.Bulk(c.Action)
		}
	}
	return batch
}

// saveProposals writes down, before commands leave, the highest number, and the proposals that are kept.
func (l *Log) saveProposals() {
	q := &l.proposals
	if len(q.open) == 0 {
		return // what was proposed is settled, and the state knows the number
	}
	l.saveNumber()
	for _, p := range q.open {
		if p.kept && !p.onDisk {
			p.onDisk = true
			l.out.Put(Bucket, commandsKey(p.last()), chronicle.EncodeBatch(p.commands))
		}
	}
}

// saveNumber writes down the highest number of a command, if what is on disk does not tell it.
func (l *Log) saveNumber() {
	if q := &l.proposals; q.number > q.onDisk && !l.lacks(rule.Numbers) {
		q.onDisk = q.number
		l.out.Put(bucketIdentity, KeyNumber, codec.Uint([]byte{formatRecord}, q.number))
	}
}

func commandsKey(number uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(keyCommands), number))
}
