package ipam

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

const (
	// snapshotEvery is how many slots pass between two snapshots of the state.
	snapshotEvery = 1024
	// keepSlots is how many slots behind a snapshot are kept for peers that lag.
	keepSlots = 10_000
)

// decide has the actions decided as commands of this peer, all in one slot,
// and returns what became of them. This peer is its own electorate (protocol,
// 2.8), so that the slot is decided before decide returns, and is on disk
// before anything leaves.
func (m *Machine) decide(actions ...chronicle.Action) []chronicle.Outcome {
	batch := make([]chronicle.Command, len(actions))
	for i, a := range actions {
		m.number++
		batch[i] = chronicle.Command{Author: m.self, Number: m.number, Action: a}
	}
	voters := m.state.Voters()
	if m.state.Slot == 0 {
		voters = []peer.ID{m.self} // slot 1 is decided by its founders
	}
	value, err := m.agree(voters, chronicle.EncodeBatch(batch))
	if err != nil {
		m.broken = err
		return refusedAll(batch, err)
	}
	outcomes := m.learn(value)
	if m.broken != nil {
		return refusedAll(batch, m.broken)
	}
	return outcomes
}

// refusedAll returns the outcomes of commands that were not decided.
func refusedAll(batch []chronicle.Command, err error) []chronicle.Outcome {
	out := make([]chronicle.Outcome, len(batch))
	for i, c := range batch {
		out[i] = chronicle.Outcome{Command: c, Refused: err.Error()}
	}
	return out
}

// agree runs the next slot through Paxos, the same that many peers run. The
// voters' answers are this peer's own: promise, acceptance and decision fall
// into one step and one write, so that of the acceptor nothing outlives it.
func (m *Machine) agree(voters []peer.ID, value []byte) ([]byte, error) {
	electorate, err := paxos.NewElectorate(voters)
	if err != nil {
		return nil, err
	}
	proposer, err := paxos.NewProposer(m.self, m.boot, electorate)
	if err != nil {
		return nil, err
	}
	var acceptor paxos.Acceptor
	prepare, err := proposer.Start(value, 0)
	if err != nil {
		return nil, err
	}
	answer, _ := acceptor.Prepare(prepare.Ballot)
	if promise, ok := answer.(paxos.Promise); ok {
		if accept, ok := proposer.OnPromise(m.self, promise); ok {
			answer, _ = acceptor.Accept(accept.Ballot, accept.Value)
			if accepted, ok := answer.(paxos.Accepted); ok && proposer.OnAccepted(m.self, accepted) {
				return proposer.Value(), nil
			}
		}
	}
	return nil, fmt.Errorf("slot %d needs %d voters, and this release runs alone", m.state.Slot+1, len(voters))
}

// learn takes in the decided value of the next slot: it is written down, then
// applied, and the spaces of this peer follow the rings.
func (m *Machine) learn(value []byte) []chronicle.Outcome {
	batch, err := chronicle.DecodeBatch(value)
	if err != nil {
		m.broken = fmt.Errorf("slot %d was decided and cannot be read: %w", m.state.Slot+1, err)
		batch = nil // equally on all peers
	}
	m.saveSlot(m.state.Slot+1, value)
	outcomes := m.state.Apply(batch)
	if m.state.Slot%snapshotEvery == 0 {
		m.saveSnapshot()
	}
	for _, o := range outcomes {
		if o.Refused == "" {
			m.follow(o)
		}
	}
	return outcomes
}

// follow makes the pools of this peer follow one command that had effect.
func (m *Machine) follow(o chronicle.Outcome) {
	switch a := o.Command.Action.(type) {
	case chronicle.CreatePool:
		p := m.addPool(m.state.Pool(o.Pool))
		m.note(Note{Kind: NotePoolCreated, Pool: p.CIDR})
	case chronicle.DeletePool:
		if p := m.pools[a.Pool]; p != nil {
			m.dropPool(p)
			m.note(Note{Kind: NotePoolDeleted, Pool: p.CIDR})
		}
	case chronicle.Open:
		m.followRing(m.pools[a.Pool])
	case chronicle.Close:
		m.followRing(m.pools[a.Pool])
	case chronicle.Give:
		m.followRing(m.pools[a.Pool])
	case chronicle.Reserve:
		m.followRing(m.pools[a.Pool])
	case chronicle.Unreserve:
		m.followRing(m.pools[a.Pool])
	case chronicle.Forget, chronicle.Inherit:
		for _, p := range m.pools {
			m.followRing(p)
		}
	}
}

// addPool begins what this peer knows of a pool.
func (m *Machine) addPool(cp *chronicle.Pool) *pool {
	p := m.poolFor(cp)
	m.followRing(p)
	return p
}

// poolFor returns what this peer knows of a pool of the state, nothing yet if
// it has not been asked before.
func (m *Machine) poolFor(cp *chronicle.Pool) *pool {
	p := m.pools[cp.Key]
	if p == nil {
		p = &pool{Pool: cp, space: space.New(addr.Size(cp.CIDR)), listed: -1}
		m.pools[cp.Key] = p
	}
	return p
}

// followRing makes the space follow the ring: ranges that became this peer's
// can be handed out, others no more.
func (m *Machine) followRing(p *pool) {
	if p == nil {
		return
	}
	mine := slices.Collect(p.Ring.OwnedBy(m.self))
	for _, r := range subtract(p.mine, mine) {
		m.disown(p, r)
	}
	for _, r := range subtract(mine, p.mine) {
		p.space.Own(r)
	}
	p.mine = mine
}

// disown takes a range out of the space, and what was remembered of it out of
// the database. Commands that take space from this peer are its own and never
// name space in which an address is held; Forget is the exception, and what is
// held then stays held, and is a conflict.
func (m *Machine) disown(p *pool, r addr.Range) {
	for o, rec := range p.space.Records(r) {
		if rec.State == space.Freed {
			m.saveHolding(p, o, nil)
		}
	}
	if err := p.space.Disown(r); err != nil {
		m.broken = fmt.Errorf("pool %v: %w", p.CIDR, err)
	}
}

// dropPool forgets a pool that was deleted, and its records.
func (m *Machine) dropPool(p *pool) {
	for o := range p.space.Records(addr.Whole(p.CIDR)) {
		m.saveHolding(p, o, nil)
	}
	delete(m.pools, p.Key)
	m.deleted[p.CIDR] = m.now
}

// subtract returns the parts of a that lie in none of b. Both are in order,
// and neither has ranges that overlap.
func subtract(a, b []addr.Range) []addr.Range {
	var out []addr.Range
	for _, r := range a {
		for len(b) > 0 && b[0].End <= r.Start {
			b = b[1:]
		}
		for i := 0; i < len(b) && b[i].Start < r.End; i++ {
			if r.Start < b[i].Start {
				out = append(out, addr.Range{Start: r.Start, End: b[i].Start})
			}
			r.Start = b[i].End
		}
		if !r.Empty() {
			out = append(out, r)
		}
	}
	return out
}
