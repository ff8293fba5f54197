package replog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A log is in one bucket of the database, but for the highest number of a command:
//
//	bucket      key                     value
//	identity    "number"                highest number of a command that has left
//	chronicle   0x00                    snapshot of the state
//	chronicle   0x01, slot (8 bytes)    decided value
//	chronicle   0x02                    what this peer has promised and accepted in the next slot
//	chronicle   0x03, number (8 bytes)  commands that may take space from this peer, not settled
const (
	Bucket    = "chronicle"
	KeyNumber = "number"

	bucketIdentity = "identity"

	keySnapshot = "\x00"
	keySlot     = "\x01"
	keyVote     = "\x02"
	keyCommands = "\x03"

	formatRecord = 1
)

// ErrLater is returned where a later release has written slots or a state at a level that this peer does not speak.
var ErrLater = errors.New("slots of a later level")

// Restoration is a log on its way from the disk. Use [Log.Restore].
type Restoration struct {
	l        *Log
	vote     paxos.Acceptor
	voteSlot uint64
	commands []*Proposal
}

// Restore begins to restore the log.
func (l *Log) Restore() *Restoration { return &Restoration{l: l} }

// Number takes in the record of [KeyNumber].
func (r *Restoration) Number(value []byte) error {
	c := codec.NewReader(value)
	c.Format(formatRecord, "a number")
	r.l.proposals.onDisk = c.Uint("number")
	return c.Done()
}

// Visit takes in a record of [Bucket], in the order of keys. The bytes need to be valid only during the call. The error is
// [ErrLater] where another release is needed; see [codec.ErrCorrupt] for what was damaged.
func (r *Restoration) Visit(key string, value []byte) (err error) {
	switch {
	case key == keySnapshot:
		return r.snapshot(value)
	case key == keyVote:
		r.voteSlot, r.vote, err = parseVote(value)
		return wrap(err, "acceptor")
	case strings.HasPrefix(key, keyCommands):
		return wrap(r.proposal(value), "commands")
	}
	slot, ok := ParseKey(key)
	if !ok {
		return fmt.Errorf("%w: key of a slot", codec.ErrCorrupt)
	}
	return r.slot(slot, value)
}

func (r *Restoration) snapshot(value []byte) error {
	s, err := chronicle.DecodeState(value)
	if err != nil {
		return wrap(err, "snapshot")
	}
	*r.l.state = *s
	r.l.edition++
	return r.spoken()
}

// spoken reports whether this peer speaks what the state says that the cluster uses.
func (r *Restoration) spoken() error {
	if r.l.state.Level > r.l.cfg.Spoken {
		return ErrLater
	}
	return nil
}

// slot takes in a decided value. Slots follow one another, behind the snapshot; those before it are kept for peers that lag.
func (r *Restoration) slot(slot uint64, value []byte) error {
	l := r.l
	switch {
	case slot <= l.state.Slot:
		l.slots.Restore(slot, nil)
		return nil
	case slot != l.state.Slot+1:
		return fmt.Errorf("%w: slot %d follows slot %d", codec.ErrCorrupt, slot, l.state.Slot)
	}
	value = append([]byte{}, value...)
	batch, understood := l.decode(slot, value)
	if err := r.spoken(); err != nil || !understood {
		return ErrLater
	}
	l.slots.Restore(slot, value)
	l.apply(batch)
	return nil
}

// proposal takes in commands that may have left and are not settled.
func (r *Restoration) proposal(value []byte) error {
	batch, err := chronicle.DecodeBatch(append([]byte{}, value...))
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		return fmt.Errorf("%w: no command", codec.ErrCorrupt)
	}
	p := &Proposal{commands: batch, kept: true, onDisk: true}
	p.key = Key(slices.Collect(p.Actions()))
	r.commands = append(r.commands, p)
	return nil
}

// Finish takes in what has come, as that of a peer.
func (r *Restoration) Finish(self peer.ID) error {
	l, q := r.l, &r.l.proposals
	l.self, l.own = self, own{}
	q.number, q.before = max(q.onDisk, l.state.Number(self)), q.onDisk
	for _, p := range r.commands {
		for i, c := range p.commands {
			if c.Author != self || c.Number > q.number || i > 0 && c.Number <= p.commands[i-1].Number {
				return fmt.Errorf("record of the commands: %w: command %d of %s", codec.ErrCorrupt, c.Number, c.Author.Short())
			}
		}
	}
	q.open = r.commands
	if r.voteSlot == l.state.Slot+1 { // what is on disk of an older slot is of no use
		l.vote = vote{Acceptor: r.vote, onDisk: true}
	}
	return nil
}

func wrap(err error, what string) error {
	if err != nil {
		return fmt.Errorf("record of the %s: %w", what, err)
	}
	return nil
}
