package replog

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Decision is what this peer's own attempt has decided. The voters have been told.
type Decision struct {
	Value []byte
	slot  uint64
	told  map[peer.ID]bool
}

// decided tells the voters what this peer's attempt has decided.
func (l *Log) decided(value []byte) *Decision {
	d := &Decision{Value: value, slot: l.state.Slot + 1, told: map[peer.ID]bool{l.self: true}}
	for _, id := range l.state.Voters() {
		l.tell(d, id)
	}
	return d
}

func (l *Log) tell(d *Decision, id peer.ID) {
	if !d.told[id] {
		d.told[id] = true
		l.send(id, wire.Decided{First: d.slot, Values: [][]byte{d.Value}})
	}
}

// Tell tells those whom a decision concerns at once, and everybody by a hint. The batch is what was applied of it.
func (l *Log) Tell(d *Decision, batch []chronicle.Command) {
	for _, c := range batch {
		for _, id := range c.Concerns() {
			l.tell(d, id)
		}
	}
	l.hint(d.slot, d.Value)
}

// hintValue is the longest value that is broadcast whole.
const hintValue = 900

// hint tells everybody of a slot. A peer that misses it sees the number elsewhere, and asks.
func (l *Log) hint(slot uint64, value []byte) {
	if len(l.state.Roster) <= 2 {
		return // they have been told
	}
	if len(value) > hintValue {
		l.send(peer.None, wire.Beat{})
		return
	}
	l.send(peer.None, wire.Decided{First: slot, Values: [][]byte{value}})
}

// PassOn tells everybody of a slot that this peer has learned of, in a large cluster: a hint reaches everybody only if those
// who did not know pass it on.
func (l *Log) PassOn(d wire.Decided) {
	if len(d.Values) == 1 && len(l.state.Roster) > 2*chronicle.MaxVoters {
		l.hint(d.First, d.Values[0])
	}
}

// Decode returns the commands of the next slot from its value, and false where this peer does not speak the level of one. A
// value that cannot be read counts as an empty batch, on all peers alike, and this peer must not go on: see [Log.Err]. Only a
// slot or a state of its own cluster, or of the one that it is about to join, shows a peer that it is outdated, and no hearsay.
func (l *Log) Decode(value []byte) (batch []chronicle.Command, understood bool) {
	if batch, understood = l.decode(l.state.Slot+1, value); !understood {
		l.later = max(l.later, l.cfg.Spoken+1) // at least
	}
	return batch, understood
}

func (l *Log) decode(slot uint64, value []byte) (batch []chronicle.Command, understood bool) {
	batch, err := chronicle.DecodeBatch(value)
	if err != nil {
		// No peer can have meant it, and which of them has the defect nobody can tell.
		l.err = fmt.Errorf("slot %d was decided and cannot be read: %w", slot, err)
		return nil, true
	}
	return batch, chronicle.Known(batch) || l.lacks(rule.Levels)
}

// Apply makes a value that was decided, and the batch that it was decoded to, the next slot. The log writes it down, applies
// it, and has the caller follow what came of each command. Then this peer's part in the slot ends: Apply returns its proposals
// that are settled. [Log.Next] comes behind that.
func (l *Log) Apply(value []byte, batch []chronicle.Command, follow func(chronicle.Outcome)) (settled []*Proposal) {
	l.slots.Append(l.state.Slot+1, value)
	outcomes := l.apply(batch)
	l.noteOutcomes(outcomes)
	// A snapshot at a level that is not spoken would look like one of a later release, which knows slots behind it.
	if l.slots.SnapshotDue(l.state.Slot) && l.state.Level <= l.cfg.Spoken {
		l.slots.Snapshot(l.state.Encode())
	}
	for _, o := range outcomes {
		if o.Refused != "" {
			continue
		}
		if a, evicts := o.Command.Action.(chronicle.Evict); evicts {
			delete(l.inbox, a.Peer) // it brings that again, once it is back: see Route
		}
		follow(o)
	}
	return l.close()
}

// apply applies a decided batch.
func (l *Log) apply(batch []chronicle.Command) []chronicle.Outcome {
	l.edition++
	if l.cfg.Apply != nil {
		return l.cfg.Apply(l.state, batch)
	}
	return l.state.Apply(batch)
}

// close ends this peer's part in the slot before which the state stood, and returns its proposals that are settled by where
// it stands now.
func (l *Log) close() []*Proposal {
	onDisk := l.vote.onDisk
	l.vote = vote{}
	if onDisk {
		l.out.Delete(Bucket, keyVote)
	}
	l.attempt, l.finishes = nil, false
	l.pulledAt = time.Time{}
	return l.TakeSettled()
}

// Next begins with the slot behind the one that was closed: commands came meanwhile.
func (l *Log) Next() {
	l.pruneInbox()
	l.Run()
}

// ReadSnapshot returns the state in a snapshot that another peer has sent, or nil where it is none that this peer may
// follow: one at a later slot of its cluster, or of any if it is in none, whole, and of a level that it speaks.
func (l *Log) ReadSnapshot(h wire.Header, s wire.Snapshot) *chronicle.State {
	slot, cluster, level, err := chronicle.Preamble(s.State)
	if err != nil || slot <= l.state.Slot || cluster == ([16]byte{}) || l.state.Slot > 0 && cluster != l.state.Cluster {
		return nil
	}
	if level > l.cfg.Spoken {
		l.later = max(l.later, level)
		return nil
	}
	state, err := chronicle.DecodeState(s.State)
	if err != nil || state.Slot == h.Slot && state.Digest() != h.Digest {
		return nil // damaged on its way
	}
	return state
}

// Install replaces the state by a later one, which becomes the beginning of what is on disk. The caller follows the change
// from the old state. Then this peer's part in the slot ends: Install returns its proposals that are settled. [Log.Next] comes
// behind that.
func (l *Log) Install(state *chronicle.State, follow func(old *chronicle.State)) (settled []*Proposal) {
	old := *l.state
	if state.Cluster != old.Cluster {
		l.queued = queued{} // about a slot of the cluster before
	}
	*l.state = *state
	l.edition++
	for _, gone := range state.Former {
		delete(l.inbox, gone.ID) // as in Apply
	}
	follow(&old)
	l.slots.Replace(old.Slot, l.state.Encode())
	return l.close()
}

// Leave forgets a cluster in which this peer had nothing: all but the numbers that it has given to commands.
func (l *Log) Leave() {
	l.slots.Replace(l.state.Slot, nil)
	l.saveNumber() // the state knew it
	*l.state = chronicle.State{}
	l.edition++
	l.later = 0
	l.vote.Acceptor, l.queued = paxos.Acceptor{}, queued{}
	l.Stop()
}

// maxPage is how many bytes of values go into one message.
const maxPage = 256 << 10

// SendSlots tells a peer what was decided behind a slot, or the whole state if that is no longer remembered.
func (l *Log) SendSlots(to peer.ID, after uint64) {
	if to == l.self || after >= l.state.Slot {
		return
	}
	values, all := l.slots.After(after)
	if !all {
		l.send(to, wire.Snapshot{State: l.state.Encode()})
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
	l.send(to, page)
}

// pullAgain is how long an answer to a pull may take.
const pullAgain = 500 * time.Millisecond

// Pull asks a peer that knows later slots for them, one peer at a time.
func (l *Log) Pull(from peer.ID) {
	if from == l.self || l.IsOutdated() || !l.peers.MayFollow() || !l.out.Passed(pullAgain, l.pulledAt) {
		return
	}
	l.pulledAt = l.out.Now()
	l.send(from, wire.Pull{After: l.state.Slot})
}

// Batches returns what was decided in all slots since slot 1, and false where not all of it is remembered or can be read.
func (l *Log) Batches() (batches [][]chronicle.Command, all bool) {
	values, all := l.slots.After(0)
	for _, v := range values {
		batch, err := chronicle.DecodeBatch(v)
		if err != nil {
			return nil, false
		}
		batches = append(batches, batch)
	}
	return batches, all
}
