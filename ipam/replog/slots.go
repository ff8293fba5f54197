package replog

import (
	"encoding/binary"
	"strings"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

const (
	// snapshotEvery is how many slots pass between two snapshots of the state.
	snapshotEvery = 1024
	// keepSlots is how many slots behind a snapshot are kept on disk.
	keepSlots = 10_000
	// keepValues is how many decided values are kept in memory, so that one frame has room for all, and keepBytes how
	// long they may be together.
	keepValues = wire.MaxSlots
	keepBytes  = 4 << 20
)

// Slots are the decided slots of one peer: on disk, behind a snapshot of the state, and the last ones in memory. Use
// [NewSlots].
type Slots struct {
	out    *effect.Writer
	limit  uint64   // see [NewSlots]
	rules  rule.Set // that are taken away, in tests
	values [][]byte // the last decided values
	first  uint64   // slot of the first of them
	bytes  int      // how long they are together
	oldest uint64   // the oldest slot on disk; 0: there is none
}

// NewSlots returns none. limit, where it is not 0, replaces all three limits of how many slots are kept or pass between
// snapshots: a test would not reach them.
func NewSlots(out *effect.Writer, limit uint64) Slots { return Slots{out: out, limit: limit} }

func (l *Slots) limited(n uint64) uint64 {
	if l.limit > 0 {
		return l.limit
	}
	return n
}

// Restore takes in a slot that is on disk, in the order of slots. value is nil for one that the snapshot has.
func (l *Slots) Restore(slot uint64, value []byte) {
	if l.oldest == 0 {
		l.oldest = slot
	}
	if value != nil {
		l.remember(slot, value)
	}
}

// ParseKey returns the slot that a key of the bucket is of, and false for any other key.
func ParseKey(key string) (slot uint64, ok bool) {
	number, ok := strings.CutPrefix(key, keySlot)
	if !ok || len(number) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(number)), true
}

func slotKey(slot uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(keySlot), slot))
}

// Append takes in the decided value of the next slot, before it is applied.
func (l *Slots) Append(slot uint64, value []byte) {
	l.out.Put(Bucket, slotKey(slot), value)
	if l.oldest == 0 {
		l.oldest = slot
	}
	// One old slot goes with each new one, so that no write is large. The last
	// snapshot is younger than what goes.
	if kept := l.limited(keepSlots) + l.limited(snapshotEvery); slot > kept {
		l.out.Delete(Bucket, slotKey(slot-kept))
		l.oldest = max(l.oldest, slot-kept+1)
	}
	l.remember(slot, value)
}

// remember keeps a decided value for those who lag.
func (l *Slots) remember(slot uint64, value []byte) {
	if len(l.values) == 0 {
		l.first = slot
	}
	l.values = append(l.values, value)
	l.bytes += len(value)
	for len(l.values) > int(l.limited(keepValues)) || l.bytes > keepBytes && len(l.values) > 1 {
		l.bytes -= len(l.values[0])
		l.values[0] = nil
		l.values = l.values[1:]
		l.first++
	}
}

// SnapshotDue reports whether a snapshot is to be written once the slot is applied.
func (l *Slots) SnapshotDue(slot uint64) bool { return slot%l.limited(snapshotEvery) == 0 }

// Snapshot writes the state as a whole, so that a start need not apply every slot since the first.
func (l *Slots) Snapshot(state []byte) { l.out.Put(Bucket, keySnapshot, state) }

// After returns the values of all slots behind one, and false if they are not all remembered.
func (l *Slots) After(slot uint64) ([][]byte, bool) {
	if slot+1 < l.first || len(l.values) == 0 {
		return nil, false
	}
	return l.values[slot+1-l.first:], true
}

// Replace makes a state the beginning of the log, in place of all slots up to one, also those of which nothing is known
// any more. Where state is nil nothing is left.
func (l *Slots) Replace(to uint64, state []byte) {
	for n := l.oldest; n > 0 && n <= to && !l.rules.Has(rule.OldSlots); n++ {
		l.out.Delete(Bucket, slotKey(n))
	}
	if state != nil {
		l.Snapshot(state)
	} else {
		l.out.Delete(Bucket, keySnapshot)
	}
	l.values, l.first, l.bytes, l.oldest = nil, 0, 0, 0
}
