package ipam

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
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
	// backoff is the shortest wait after a ballot was lost, backoffMax the
	// longest.
	backoff    = 20 * time.Millisecond
	backoffMax = 2 * time.Second
)

// electorate returns the voters of the next slot. Slot 1 is decided by those
// who found the cluster (protocol, 6).
func (m *Machine) electorate() (paxos.Electorate, error) {
	switch {
	case m.state.Slot > 0 && m.lacks(ruleElectorate):
		return paxos.NewElectorate(m.liveVoters())
	case m.state.Slot > 0:
		return paxos.NewElectorate(m.state.Voters())
	case m.cfg.Formation.Size > 0:
		return paxos.NewFounders(m.cfg.Formation.Size)
	}
	return paxos.NewElectorate([]peer.ID{m.self})
}

// voter returns the ID by which the electorate of the next slot counts a peer,
// peer.None for one that it does not count.
//
// In slot 1 that is a host's seat, which may change while a ballot runs, as
// names are looked up anew: nobody counts at two.
func (m *Machine) voter(id peer.ID) peer.ID {
	if m.state.Slot > 0 || m.cfg.Formation.Size == 0 {
		return id
	}
	seat, counted := m.attempt.seats[id]
	if !counted {
		if seat = m.seatOf(id); seat != peer.None {
			m.attempt.seats[id] = seat
		}
	}
	return seat
}

// takesPart reports whether this peer may vote on slots and propose them, where
// it is of the roster: what it knows is current, whole and understood.
func (m *Machine) takesPart() bool {
	return (!m.booting() || m.completing()) && !m.isSuspended() && m.broken == nil && !m.outdated()
}

// run goes on with the slot that this peer proposes, or begins with it if
// there is something to propose.
func (m *Machine) run() {
	if !m.takesPart() || m.state.Slot > 0 && !m.member() {
		return
	}
	a := m.attempt
	if a == nil {
		if len(m.inbox) > 0 || m.completes && len(m.acceptor.Value) > 0 {
			m.begin()
		}
		return
	}
	switch phase := a.proposer.Phase(); {
	case phase == paxos.Lost && !m.now.Before(a.retryAt):
		m.begin()
	case phase == paxos.Lost, phase == paxos.Decided:
	case m.now.Sub(a.askedAt) >= repeatAfter || m.now.Before(a.askedAt):
		a.askedAt = m.now
		for _, id := range a.proposer.Missing() {
			m.sendVoter(id, a.request)
		}
	}
}

// begin starts a ballot of this peer for the next slot.
func (m *Machine) begin() {
	batch := m.gather()
	if len(batch) == 0 && m.attempt == nil && (!m.completes || len(m.acceptor.Value) == 0) {
		return
	}
	if m.attempt == nil {
		electorate, err := m.electorate()
		if err != nil {
			m.broken = fmt.Errorf("slot %d: %w", m.state.Slot+1, err)
			return
		}
		boot := m.boot
		if m.lacks(ruleBoot) {
			boot = 1
		}
		proposer, err := paxos.NewProposer(m.self, boot, electorate)
		if err != nil {
			m.broken = fmt.Errorf("slot %d: %w", m.state.Slot+1, err)
			return
		}
		m.attempt = &attempt{proposer: proposer}
	}
	m.attempt.seats = map[peer.ID]peer.ID{}
	value := chronicle.EncodeBatch(batch)
	if m.beginUnprepared(batch, value) {
		return
	}
	prepare, err := m.attempt.proposer.Start(value, m.acceptor.Promised.Round)
	if err != nil {
		m.broken = fmt.Errorf("slot %d: %w", m.state.Slot+1, err)
		return
	}
	m.askVoters(wire.Prepare{Slot: m.state.Slot + 1, Formation: m.formation(), Ballot: prepare.Ballot})
}

// beginUnprepared has the voters accept a value without their promises, if the
// lowest ballot of the next slot is this peer's to use. Its own acceptance is
// on disk with this step, and so before the question leaves.
func (m *Machine) beginUnprepared(batch []chronicle.Command, value []byte) bool {
	// What this peer may want no more when it hears from others is not to bind
	// its vote while none of them can be asked: see reconsider.
	if m.cutOff() || slices.ContainsFunc(batch, revocable) {
		return false
	}
	if m.lacks(ruleUnused) && m.owner() == m.self {
		m.acceptor = paxos.Acceptor{}
	}
	accept, ok := m.attempt.proposer.StartUnprepared(m.owner(), value, &m.acceptor)
	if !ok {
		return false
	}
	m.acceptorChanged = true
	m.askVoters(wire.Accept{Slot: m.state.Slot + 1, Formation: m.formation(), Accept: accept})
	return true
}

// revocable reports whether a command is one that reconsider takes back.
func revocable(c chronicle.Command) bool {
	_, ok := c.Action.(chronicle.Forget)
	return ok
}

// owner returns whose the lowest ballot of the next slot is: the first voter's,
// as all know it who know the slots before. Slot 1 has none, as those who found
// a cluster know of no order among them.
func (m *Machine) owner() peer.ID {
	switch {
	case m.state.Slot == 0:
		return peer.None
	case m.lacks(ruleOwner):
		return m.self
	}
	return m.state.Roster[0].ID
}

// askVoters puts a question to every voter of the next slot.
func (m *Machine) askVoters(body wire.Body) {
	a := m.attempt
	a.request, a.askedAt = body, m.now
	for _, id := range a.proposer.Missing() {
		m.sendVoter(id, body)
	}
}

// sendVoter sends to the peer that an electorate knows by that ID.
func (m *Machine) sendVoter(voter peer.ID, body wire.Body) {
	if m.state.Slot > 0 || m.cfg.Formation.Size == 0 {
		m.send(voter, body)
		return
	}
	if id := m.seated(voter); id != peer.None {
		m.send(id, body)
	}
}

// drain handles what this peer has sent to itself. It counts as any other
// answer, and like any other leaves only with the write of this step.
func (m *Machine) drain() {
	for len(m.local) > 0 {
		body := m.local[0]
		m.local = m.local[1:]
		m.takeVote(m.self, body)
	}
}

// takeVote handles the messages of Paxos.
func (m *Machine) takeVote(from peer.ID, body wire.Body) {
	switch b := body.(type) {
	case wire.Prepare:
		if m.mayVote(from, b.Slot, b.Formation) {
			answer, changed := m.acceptor.Prepare(b.Ballot)
			m.answerVote(from, b.Slot, answer, changed)
		}
	case wire.Accept:
		if m.mayVote(from, b.Slot, b.Formation) {
			answer, changed := m.acceptor.Accept(b.Accept.Ballot, b.Accept.Value)
			m.answerVote(from, b.Slot, answer, changed)
		}
	case wire.Promise:
		if a := m.attemptOf(b.Slot); a != nil {
			if accept, ok := a.proposer.OnPromise(m.voter(from), b.Promise); ok {
				m.askVoters(wire.Accept{Slot: b.Slot, Formation: m.formation(), Accept: accept})
			}
		}
	case wire.Accepted:
		if a := m.attemptOf(b.Slot); a != nil && a.proposer.OnAccepted(m.voter(from), b.Accepted) {
			m.decided(a.proposer.Value())
		}
	case wire.Refusal:
		if a := m.attemptOf(b.Slot); a != nil && a.proposer.OnRefusal(m.voter(from), b.Refusal) {
			a.tries++
			wait := min(backoff<<min(a.tries, 10), backoffMax)
			a.retryAt = m.now.Add(wait/2 + time.Duration(m.cfg.Rand.Int64N(int64(wait))))
		}
	}
}

// early is a question about the slot after the next. Its proposer tells the
// decision of the next one in the moment before, and the network may turn the
// two round.
type early struct {
	from  peer.ID
	start start // of the one who asks
	slot  uint64
	body  wire.Body // nil: there is none
	at    time.Time
}

// keepEarly keeps a question that comes a slot too early: it would be put again
// only after repeatAfter.
func (m *Machine) keepEarly(from peer.ID, start start, body wire.Body) {
	var slot uint64
	switch b := body.(type) {
	case wire.Prepare:
		slot = b.Slot
	case wire.Accept:
		slot = b.Slot
	}
	if slot == m.state.Slot+2 {
		m.early = early{from, start, slot, body, m.now}
	}
}

// takeEarly answers the question that came too early, if its turn has come, and
// whoever asked is still the same.
func (m *Machine) takeEarly() {
	e := m.early
	if e.body == nil || e.slot > m.state.Slot+1 {
		return
	}
	m.early = early{}
	if m.now.Sub(e.at) < repeatAfter && m.contact(e.from).start == e.start {
		m.takeVote(e.from, e.body)
	}
}

// attemptOf returns this peer's attempt to have the slot decided, or nil.
func (m *Machine) attemptOf(slot uint64) *attempt {
	if slot != m.state.Slot+1 {
		return nil
	}
	return m.attempt
}

// mayVote reports whether this peer votes on a slot: it must know all before
// it, and be one of its voters. Whoever asks about an older slot is told the
// decision.
func (m *Machine) mayVote(from peer.ID, slot uint64, f wire.Formation) bool {
	switch next := m.state.Slot + 1; {
	case slot < next:
		m.sendSlots(from, slot-1)
		return false
	case slot > next && !m.lacks(rulePrefix):
		m.pull(from)
		return false
	case !m.takesPart():
		return false
	case slot == 1:
		return m.mayFound(from, f)
	}
	return m.isVoter(m.self)
}

// isVoter reports whether a peer votes on the next slot.
func (m *Machine) isVoter(id peer.ID) bool {
	for i := range min(len(m.state.Roster), chronicle.MaxVoters) {
		if m.state.Roster[i].ID == id {
			return true
		}
	}
	return false
}

// answerVote answers the proposer of a slot, once the acceptor is on disk.
func (m *Machine) answerVote(to peer.ID, slot uint64, answer paxos.Answer, changed bool) {
	m.acceptorChanged = m.acceptorChanged || changed
	switch a := answer.(type) {
	case paxos.Promise:
		m.send(to, wire.Promise{Slot: slot, Promise: a})
	case paxos.Accepted:
		m.send(to, wire.Accepted{Slot: slot, Accepted: a})
	case paxos.Refusal:
		m.send(to, wire.Refusal{Slot: slot, Refusal: a})
	}
}

// decided takes in the decision of this peer's own attempt, and tells it: the
// voters and those concerned at once, everybody by a hint.
func (m *Machine) decided(value []byte) {
	slot := m.state.Slot + 1
	told := map[peer.ID]bool{m.self: true}
	tell := func(id peer.ID) {
		if !told[id] {
			told[id] = true
			m.send(id, wire.Decided{First: slot, Values: [][]byte{value}})
		}
	}
	for _, id := range m.state.Voters() {
		tell(id)
	}
	batch, ok := m.learn(value)
	if ok {
		m.next()
	}
	for _, c := range batch {
		tell(c.Author)
		switch a := c.Action.(type) {
		case chronicle.Give:
			tell(a.To)
		case chronicle.Admit:
			tell(a.ID)
		case chronicle.Found:
			for _, f := range a.Peers {
				tell(f.ID)
			}
		}
	}
	m.hint(slot, value)
}

// hintValue is the longest value that is broadcast whole.
const hintValue = 900

// hint tells everybody of a slot. Who misses it sees the number elsewhere, and
// asks.
func (m *Machine) hint(slot uint64, value []byte) {
	if len(m.state.Roster) <= 2 {
		return // they have been told
	}
	if len(value) > hintValue {
		m.send(peer.None, wire.Beat{})
		return
	}
	m.send(peer.None, wire.Decided{First: slot, Values: [][]byte{value}})
}
