package ipam

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// learn takes in the decided value of the next slot: it is written down, then
// applied, and the spaces of this peer follow the rings. It reports whether it was; if
// so next is to follow.
//
// A peer that does not speak the level of the slot leaves it, and all that
// follow, for after its upgrade.
func (m *Machine) learn(value []byte) ([]chronicle.Command, bool) {
	if m.outdated() || m.isSuspended() {
		return nil, false
	}
	batch, err := chronicle.DecodeBatch(value)
	if err == nil && !chronicle.Known(batch) {
		m.meetLater(m.cfg.Spoken + 1) // at least
		return nil, false
	}
	if err != nil {
		m.broken = errUnreadable(m.state.Slot+1, err)
		batch = nil // equally on all peers
	}
	if !m.follows(batch) {
		return nil, false
	}
	was := m.member()
	m.log.Append(m.state.Slot+1, value)
	outcomes := m.apply(batch)
	m.noteOutcomes(outcomes)
	// A snapshot at a level that is not spoken would look like one of a later
	// release, which knows slots behind it.
	if m.log.SnapshotDue(m.state.Slot) && !m.outdated() {
		m.log.Snapshot(m.state.Encode())
	}
	for _, o := range outcomes {
		if o.Refused == "" {
			m.follow(o)
		}
	}
	m.conclude(was)
	return batch, true
}

// errUnreadable says that a slot was decided whose value no peer can have meant. It counts as an empty one, on all peers and
// also after a start: which of them has the defect nobody can tell.
func errUnreadable(slot uint64, err error) error {
	return fmt.Errorf("slot %d was decided and cannot be read: %w", slot, err)
}

// closeSlot ends this peer's part in the slot before which the state stood, and
// returns the proposals that are settled by where it stands now.
func (m *Machine) closeSlot() []*proposal {
	m.acceptor, m.acceptorChanged = paxos.Acceptor{}, false
	if m.acceptorOnDisk {
		m.acceptorOnDisk = false
		m.dropAcceptor()
	}
	m.attempt, m.completes = nil, false
	m.pulledAt = time.Time{}
	return m.takeSettled()
}

// next begins with the slot behind the one that was closed: commands came meanwhile.
func (m *Machine) next() {
	m.pruneInbox()
	m.run()
}

// conclude has the spaces and calls of this peer, and its place in the cluster, follow
// once the state stands at another slot.
func (m *Machine) conclude(wasMember bool) {
	m.settleProposals(m.closeSlot())
	m.holdKept()
	m.changed = true
	switch member := m.member(); {
	case member && !wasMember && m.state.Slot > 1:
		m.joinedAt = m.now
		m.warnAgain(func(by peer.ID) bool { return by == m.self })
		m.warnedAt = time.Time{}
		m.note(Note{Kind: NoteJoined})
	case wasMember && !member && m.departs():
		m.left = true
		m.saveLeaving()
	case wasMember && !member:
		m.note(Note{Kind: NoteEvicted})
	}
}

// maxPage is how many bytes of values go into one message.
const maxPage = 256 << 10

// sendSlots tells a peer what was decided behind a slot, or the whole state if
// that is no longer remembered.
func (m *Machine) sendSlots(to peer.ID, after uint64) {
	if to == m.self || after >= m.state.Slot {
		return
	}
	values, all := m.log.After(after)
	if !all {
		m.send(to, wire.Snapshot{State: m.state.Encode()})
		return
	}
	page := wire.Decided{First: after + 1}
	size := 0
	for _, v := range values {
		if size += len(v); size > maxPage && len(page.Values) > 0 {
			break
		}
		page.Values = append(page.Values, v)
	}
	m.send(to, page)
}

// pullAgain is how long an answer to a pull may take.
const pullAgain = 500 * time.Millisecond

// pull asks a peer that knows later slots for them, one peer at a time.
func (m *Machine) pull(from peer.ID) {
	if since := m.now.Sub(m.pulledAt); from == m.self || m.outdated() || m.isSuspended() || since >= 0 && since < pullAgain {
		return
	}
	m.pulledAt = m.now
	m.send(from, wire.Pull{After: m.state.Slot})
}

// takeDecided learns slots that somebody knows to be decided.
func (m *Machine) takeDecided(d wire.Decided) {
	learned := false
	for i, value := range d.Values {
		if d.First+uint64(i) != m.state.Slot+1 {
			continue
		}
		m.checkVeto()
		if _, ok := m.learn(value); ok {
			m.next()
			learned = true
		}
	}
	// A hint reaches everybody only if those who did not know pass it on.
	if n := len(d.Values); learned && n == 1 && len(m.state.Roster) > 2*chronicle.MaxVoters {
		m.hint(d.First, d.Values[0])
	}
}

// takeSnapshot replaces the state by one at a later slot.
func (m *Machine) takeSnapshot(h wire.Header, s wire.Snapshot) {
	if slot, cluster, level, err := chronicle.Preamble(s.State); err == nil && level > m.cfg.Spoken {
		if slot > m.state.Slot && (cluster == m.state.Cluster || m.state.Slot == 0) {
			m.meetLater(level)
		}
		return
	}
	state, err := chronicle.DecodeState(s.State)
	if err != nil || state.Slot <= m.state.Slot || state.Cluster == ([16]byte{}) {
		return
	}
	if m.state.Slot > 0 && state.Cluster != m.state.Cluster {
		return
	}
	if state.Slot == h.Slot && state.Digest() != h.Digest {
		return // damaged on its way
	}
	m.checkVeto()
	if !m.isSuspended() && m.followsTo(state) {
		m.install(state)
		m.next()
	}
}

// install makes a later state this peer's.
func (m *Machine) install(state *chronicle.State) {
	was, old := m.member(), m.state
	if state.Cluster != old.Cluster {
		m.early = early{} // about a slot of the cluster before
	}
	m.state = state
	for _, p := range m.sortedPools() {
		if state.Pool(p.Key) == nil {
			m.dropPool(p)
		}
	}
	for _, cp := range state.Pools {
		p := m.poolFor(cp)
		p.Pool, p.facts = cp, poolFacts{}
		m.followRing(p)
		m.keepNoMore(p, addr.Whole(p.CIDR))
		m.sightSoon(p, addr.Whole(p.CIDR))
	}
	for _, gone := range state.Former {
		if before := old.Gone(gone.ID); !gone.Forgotten || gone.Machine == 0 || gone.Machine != m.machine() || before != nil && before.Forgotten {
			continue
		}
		m.awaitListAnew() // this peer may have inherited in one of the slots
		m.note(Note{Kind: NoteInherited, Holder: string(gone.Name)})
	}
	for _, gone := range state.Former {
		delete(m.inbox, gone.ID) // as in follow
	}
	m.log.Replace(old.Slot, state.Encode())
	m.saveContacts()
	m.conclude(was)
}
