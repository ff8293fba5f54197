package replog_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/replog"
)

const keySnapshot = "\x00" // as it is on disk

// disk is what a log has written.
type disk struct {
	out  effect.Out
	w    effect.Writer
	keys map[string][]byte
}

func newDisk() *disk {
	d := &disk{keys: map[string][]byte{}}
	d.w = effect.NewWriter(&d.out)
	return d
}

// commit takes in the records of a step.
func (d *disk) commit(t *testing.T) {
	t.Helper()
	for _, r := range d.out.Save {
		if r.Bucket != replog.Bucket {
			t.Errorf("a record of bucket %q", r.Bucket)
		}
		if r.Value == nil {
			delete(d.keys, string(r.Key))
			continue
		}
		d.keys[string(r.Key)] = slices.Clone(r.Value)
	}
	d.w.Reset(time.Time{})
}

// slots returns the slots on disk, in order.
func (d *disk) slots() (slots []uint64) {
	for _, key := range slices.Sorted(maps.Keys(d.keys)) {
		if slot, ok := replog.ParseKey(key); ok {
			slots = append(slots, slot)
		}
	}
	return slots
}

func value(slot uint64) []byte { return fmt.Appendf(nil, "value %d", slot) }

// With a limit of four, eight slots stay on disk: four behind each snapshot, and four between two. The last four stay
// in memory.
func TestLimits(t *testing.T) {
	d := newDisk()
	log := replog.NewSlots(&d.w, 4)
	for slot := uint64(1); slot <= 30; slot++ {
		log.Append(slot, value(slot))
		if log.SnapshotDue(slot) != (slot%4 == 0) {
			t.Errorf("slot %d: a snapshot is due: %v", slot, log.SnapshotDue(slot))
		}
		d.commit(t)
		oldest := max(1, int(slot)-7)
		if got := d.slots(); got[0] != uint64(oldest) || got[len(got)-1] != slot || len(got) != int(slot)-oldest+1 {
			t.Fatalf("slot %d: on disk are %d", slot, got)
		}
		first := uint64(max(1, int(slot)-3))
		for after := range slot + 1 {
			values, all := log.After(after)
			if all != (after+1 >= first) || all && len(values) != int(slot-after) {
				t.Fatalf("slot %d: after %d are %q, %v", slot, after, values, all)
			}
			for i, v := range values {
				if string(v) != string(value(after+1+uint64(i))) {
					t.Fatalf("slot %d: after %d are %q", slot, after, values)
				}
			}
		}
	}
}

// Values that are long together are not all kept, but the last one always is.
func TestLongValues(t *testing.T) {
	d := newDisk()
	log := replog.NewSlots(&d.w, 0)
	for slot := uint64(1); slot <= 5; slot++ {
		log.Append(slot, []byte(strings.Repeat("x", 3<<19))) // two of them and no third are within 4 MiB
	}
	log.Append(6, []byte(strings.Repeat("x", 5<<20)))
	if values, all := log.After(5); !all || len(values) != 1 {
		t.Errorf("after 5 are %d, %v", len(values), all)
	}
	if _, all := log.After(4); all {
		t.Error("more is remembered than one long value")
	}
}

// A log that was restored drops the slots that were on disk before, once a state takes their place.
func TestReplaceWhatWasRestored(t *testing.T) {
	for _, state := range [][]byte{[]byte("state"), nil} {
		d := newDisk()
		before := replog.NewSlots(&d.w, 0)
		for slot := uint64(1); slot <= 6; slot++ {
			before.Append(slot, value(slot))
		}
		before.Snapshot([]byte("state at 3"))
		d.commit(t)

		log := replog.NewSlots(&d.w, 0)
		for _, slot := range d.slots() {
			var v []byte
			if slot > 3 {
				v = value(slot)
			}
			log.Restore(slot, v)
		}
		if _, all := log.After(2); all {
			t.Error("a slot before the snapshot is remembered")
		}
		if values, all := log.After(3); !all || len(values) != 3 {
			t.Errorf("after 3 are %q, %v", values, all)
		}
		log.Replace(6, state)
		d.commit(t)
		if got := d.slots(); len(got) > 0 || string(d.keys[keySnapshot]) != string(state) {
			t.Errorf("on disk are slots %d and %q", got, d.keys[keySnapshot])
		}
		if _, all := log.After(5); all {
			t.Error("a slot before the new state is remembered")
		}
		log.Append(9, value(9))
		if values, all := log.After(8); !all || len(values) != 1 {
			t.Errorf("after 8 are %q, %v", values, all)
		}
	}
}

func TestParseKey(t *testing.T) {
	for key, want := range map[string]bool{
		"\x01\x00\x00\x00\x00\x00\x00\x01\x02": true,
		"\x01\x00\x00\x00\x00\x00\x01\x02":     false,
		"\x03\x00\x00\x00\x00\x00\x00\x01\x02": false,
		keySnapshot:                            false,
		"":                                     false,
	} {
		if slot, ok := replog.ParseKey(key); ok != want || ok && slot != 0x102 {
			t.Errorf("%q is of slot %d, %v", key, slot, ok)
		}
	}
}
