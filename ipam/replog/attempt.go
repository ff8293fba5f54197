package replog

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// attempt is this peer's attempt to have the next slot decided.
type attempt struct {
	proposer *paxos.Proposer
	request  wire.Body // what the voters were asked last
	askedAt  time.Time
	retryAt  time.Time // when to begin again, after the ballot was lost
	tries    int
	seats    map[peer.ID]peer.ID // of slot 1: by which seat each is counted, the first that it had in the ballot
}

const (
	// repeatAfter is how long a voter has to answer before it is asked again.
	repeatAfter = 250 * time.Millisecond
	// backoff is the shortest wait after a ballot was lost, backoffMax the longest.
	backoff    = 20 * time.Millisecond
	backoffMax = 2 * time.Second
)

// Run goes on with the slot that this peer proposes, or begins with it if there is something to propose.
func (l *Log) Run() {
	if !l.peers.MayVote() || l.state.Slot > 0 && l.Member() == nil {
		return
	}
	a := l.attempt
	if a == nil {
		if len(l.inbox) > 0 || l.finishes && l.HasAccepted() {
			l.begin()
		}
		return
	}
	switch phase := a.proposer.Phase(); {
	case phase == paxos.Lost && !l.out.Now().Before(a.retryAt):
		l.begin()
	case phase == paxos.Lost, phase == paxos.Decided:
	case l.out.Passed(repeatAfter, a.askedAt):
		l.askVoters(a.request)
	}
}

// begin starts a ballot of this peer for the next slot.
func (l *Log) begin() {
	batch := l.gather()
	if len(batch) == 0 && l.attempt == nil && (!l.finishes || !l.HasAccepted()) {
		return
	}
	if err := l.beginWith(batch); err != nil {
		l.err = fmt.Errorf("slot %d: %w", l.state.Slot+1, err)
	}
}

func (l *Log) beginWith(batch []chronicle.Command) error {
	if l.attempt == nil {
		electorate, err := l.electorate()
		if err != nil {
			return err
		}
		boot := l.boot
		if l.lacks(rule.Boot) {
			boot = 1
		}
		proposer, err := paxos.NewProposer(l.self, boot, electorate)
		if err != nil {
			return err
		}
		l.attempt = &attempt{proposer: proposer}
	}
	l.attempt.seats = map[peer.ID]peer.ID{}
	value := chronicle.EncodeBatch(batch)
	if l.beginUnprepared(batch, value) {
		return nil
	}
	prepare, err := l.attempt.proposer.Start(value, l.vote.Promised.Round)
	if err != nil {
		return err
	}
	l.askVoters(wire.Prepare{Slot: l.state.Slot + 1, Formation: l.peers.Formation(), Ballot: prepare.Ballot})
	return nil
}

// beginUnprepared has the voters accept a value without their promises, if the lowest ballot of the next slot is this peer's
// to use (R8). Its own acceptance is on disk with this step, and so before the question leaves.
func (l *Log) beginUnprepared(batch []chronicle.Command, value []byte) bool {
	// What this peer may withdraw when it hears from others is not to bind its vote while none of them can be asked.
	if l.peers.IsCutOff() || slices.ContainsFunc(batch, isRevocable) {
		return false
	}
	if l.lacks(rule.Unused) && l.owner() == l.self {
		l.vote.Acceptor = paxos.Acceptor{}
	}
	accept, ok := l.attempt.proposer.StartUnprepared(l.owner(), value, &l.vote.Acceptor)
	if !ok {
		return false
	}
	l.vote.changed = true
	l.askVoters(wire.Accept{Slot: l.state.Slot + 1, Formation: l.peers.Formation(), Accept: accept})
	return true
}

// electorate returns the voters of the next slot. Slot 1 is decided by those who found the cluster (protocol, 6).
func (l *Log) electorate() (paxos.Electorate, error) {
	switch {
	case l.state.Slot > 0 && l.lacks(rule.Electorate):
		return paxos.NewElectorate(l.peers.Live())
	case l.state.Slot > 0:
		return paxos.NewElectorate(l.state.Voters())
	case l.peers.Founders() > 0:
		return paxos.NewFounders(l.peers.Founders())
	}
	return paxos.NewElectorate([]peer.ID{l.self})
}

// owner returns whose the lowest ballot of the next slot is: the first voter's, as all know it who know the slots before.
// Slot 1 has none, as those who found a cluster know of no order among them.
func (l *Log) owner() peer.ID {
	switch {
	case l.state.Slot == 0:
		return peer.None
	case l.lacks(rule.Owner):
		return l.self
	}
	return l.state.Roster[0].ID
}

// isSeated reports whether the electorate of the next slot counts hosts by their seats.
func (l *Log) isSeated() bool { return l.state.Slot == 0 && l.peers.Founders() > 0 }

// voter returns the ID by which the electorate of the next slot counts a peer, [peer.None] for one that it does not count.
//
// In slot 1 that is a host's seat, which may change while a ballot runs, as names are looked up anew: nobody counts at two.
func (l *Log) voter(id peer.ID) peer.ID {
	if !l.isSeated() {
		return id
	}
	seat, counted := l.attempt.seats[id]
	if !counted {
		if seat = l.peers.Seat(id); seat != peer.None {
			l.attempt.seats[id] = seat
		}
	}
	return seat
}

// askVoters puts a question to every voter of the next slot that has not answered it.
func (l *Log) askVoters(body wire.Body) {
	a := l.attempt
	a.request, a.askedAt = body, l.out.Now()
	for _, id := range a.proposer.Missing() {
		l.sendVoter(id, body)
	}
}

// sendVoter sends to the peer that an electorate knows by that ID.
func (l *Log) sendVoter(voter peer.ID, body wire.Body) {
	if !l.isSeated() {
		l.send(voter, body)
		return
	}
	if id := l.peers.Seated(voter); id != peer.None {
		l.send(id, body)
	}
}

// attemptOf returns this peer's attempt to have the slot decided, or nil.
func (l *Log) attemptOf(slot uint64) *attempt {
	if slot != l.state.Slot+1 {
		return nil
	}
	return l.attempt
}
