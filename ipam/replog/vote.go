package replog

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// vote is what this peer has promised and accepted in the next slot.
type vote struct {
	paxos.Acceptor
	changed bool // since it was written
	onDisk  bool
}

// Take handles what another peer says of the next slots: a message of Paxos, which is kept if its turn comes next, commands to
// propose, or a question for slots that it lacks. It returns the decision of this peer's own attempt, if one comes of it.
func (l *Log) Take(f *wire.Frame) *Decision {
	switch b := f.Body.(type) {
	case wire.Pull:
		l.SendSlots(f.From, b.After)
		return nil
	case wire.Submit:
		l.takeSubmit(f.Header, b)
		return nil
	}
	d := l.take(f.From, f.Body)
	l.queue(f.From, f.Body)
	return d
}

// Drain handles what this peer has sent to itself, up to a decision of its own attempt, if there is one. It counts as any
// other answer, and like any other leaves only with the write of this step.
func (l *Log) Drain() *Decision {
	for len(l.loopback) > 0 {
		body := l.loopback[0]
		l.loopback = l.loopback[1:]
		if d := l.take(l.self, body); d != nil {
			return d
		}
	}
	return nil
}

func (l *Log) take(from peer.ID, body wire.Body) *Decision {
	switch b := body.(type) {
	case wire.Prepare:
		if l.mayVote(from, b.Slot, b.Formation) {
			answer, changed := l.vote.Prepare(b.Ballot)
			l.answer(from, b.Slot, answer, changed)
		}
	case wire.Accept:
		if l.mayVote(from, b.Slot, b.Formation) {
			answer, changed := l.vote.Accept(b.Accept.Ballot, b.Accept.Value)
			l.answer(from, b.Slot, answer, changed)
		}
	case wire.Promise:
		if a := l.attemptOf(b.Slot); a != nil {
			if accept, ok := a.proposer.OnPromise(l.voter(from), b.Promise); ok {
				l.askVoters(wire.Accept{Slot: b.Slot, Formation: l.peers.Formation(), Accept: accept})
			}
		}
	case wire.Accepted:
		if a := l.attemptOf(b.Slot); a != nil && a.proposer.OnAccepted(l.voter(from), b.Accepted) {
			return l.decided(a.proposer.Value())
		}
	case wire.Refusal:
		if a := l.attemptOf(b.Slot); a != nil && a.proposer.OnRefusal(l.voter(from), b.Refusal) {
			a.tries++
			wait := min(backoff<<min(a.tries, 10), backoffMax)
			a.retryAt = l.out.Now().Add(wait/2 + time.Duration(l.cfg.Rand.Int64N(int64(wait))))
		}
	}
	return nil
}

// mayVote reports whether this peer votes on a slot: it must know all before it, and be one of its voters. A peer that asks
// about an older slot is told the decision.
func (l *Log) mayVote(from peer.ID, slot uint64, f wire.Formation) bool {
	switch next := l.state.Slot + 1; {
	case slot < next:
		l.SendSlots(from, slot-1)
		return false
	case slot > next && !l.lacks(rule.Prefix):
		l.Pull(from)
		return false
	case !l.peers.MayVote():
		return false
	case slot == 1:
		return l.peers.MayFound(from, f)
	}
	return l.state.IsVoter(l.self)
}

// answer answers the proposer of a slot, once the vote is on disk.
func (l *Log) answer(to peer.ID, slot uint64, answer paxos.Answer, changed bool) {
	l.vote.changed = l.vote.changed || changed
	switch a := answer.(type) {
	case paxos.Promise:
		l.send(to, wire.Promise{Slot: slot, Promise: a})
	case paxos.Accepted:
		l.send(to, wire.Accepted{Slot: slot, Accepted: a})
	case paxos.Refusal:
		l.send(to, wire.Refusal{Slot: slot, Refusal: a})
	}
}

// queued is a question about the slot after the next. Its proposer tells the decision of the next one in the moment before,
// and the network may turn the two round.
type queued struct {
	from peer.ID
	slot uint64
	body wire.Body // nil: there is none
	at   time.Time
}

// queue keeps a question that comes a slot too early: it would be put again only after repeatAfter.
func (l *Log) queue(from peer.ID, body wire.Body) {
	var slot uint64
	switch b := body.(type) {
	case wire.Prepare:
		slot = b.Slot
	case wire.Accept:
		slot = b.Slot
	}
	if slot == l.state.Slot+2 {
		l.queued = queued{from, slot, body, l.out.Now()}
	}
}

// TakeQueued answers the question that came too early, if its turn has come.
func (l *Log) TakeQueued() {
	q := l.queued
	if q.body == nil || q.slot > l.state.Slot+1 {
		return
	}
	l.queued = queued{}
	if l.out.Now().Sub(q.at) < repeatAfter {
		l.take(q.from, q.body)
	}
}

// Restarted says that a peer has started anew: what its former process asked is not answered.
func (l *Log) Restarted(id peer.ID) {
	if l.queued.from == id {
		l.queued = queued{}
	}
}

// Accepted reports whether this peer has accepted such an action in the next slot, which may be decided although nobody asks
// for it any more, as what was asked of a process that ended. What was accepted and cannot be read may be one.
func (l *Log) Accepted(such func(chronicle.Action) bool) bool {
	if !l.HasAccepted() {
		return false
	}
	batch, err := chronicle.DecodeBatch(l.vote.Value)
	return err != nil || slices.ContainsFunc(batch, func(c chronicle.Command) bool { return such(c.Action) })
}

// HasAccepted reports whether this peer has accepted a value in the next slot.
func (l *Log) HasAccepted() bool { return len(l.vote.Value) > 0 }

// HasVotedToFound reports whether this peer has promised or accepted something in slot 1, on its disk.
func (l *Log) HasVotedToFound() bool { return l.state.Slot == 0 && l.vote.onDisk }

// FinishSlot has this peer propose what it has accepted in the next slot, as others wait for what becomes of it.
func (l *Log) FinishSlot() { l.finishes = true }

// Supposed returns the state with what may have been decided since, by what this peer has accepted: who decided it may be
// gone, and its containers may live.
func (l *Log) Supposed() (*chronicle.State, error) {
	if !l.HasAccepted() {
		return l.state, nil
	}
	batch, err := chronicle.DecodeBatch(l.vote.Value)
	if err != nil {
		return nil, err
	}
	return l.state.Supposing(batch, l.self)
}

// saveVote writes down what this peer has promised and accepted, before the answer leaves.
func (l *Log) saveVote() {
	if !l.vote.changed || l.lacks(rule.Promise) {
		return
	}
	l.vote.changed, l.vote.onDisk = false, true
	b := codec.Uint([]byte{formatRecord}, l.state.Slot+1)
	b = appendBallot(appendBallot(b, l.vote.Promised), l.vote.Accepted)
	l.out.Put(Bucket, keyVote, codec.Bytes(b, l.vote.Value))
}

func appendBallot(b []byte, v paxos.Ballot) []byte {
	return append(codec.Uint(codec.Uint(b, v.Round), uint64(v.Boot)), v.Peer[:]...)
}

func readBallot(r *codec.Reader) paxos.Ballot {
	return paxos.Ballot{Round: r.Uint("round"), Boot: peer.Boot(r.Uint("boot of a ballot")), Peer: r.ID("peer of a ballot")}
}

// parseVote reads a vote and the slot that it is of.
func parseVote(b []byte) (slot uint64, a paxos.Acceptor, err error) {
	r := codec.NewReader(b)
	r.Format(formatRecord, "an acceptor")
	slot = r.Uint("slot of an acceptor")
	a = paxos.Acceptor{Promised: readBallot(r), Accepted: readBallot(r)}
	if value := r.Bytes("accepted value", len(b)); len(value) > 0 || !a.Accepted.IsZero() {
		a.Value = append([]byte{}, value...)
	}
	if err := r.Done(); err != nil {
		return 0, a, err
	}
	return slot, a, a.Check()
}
