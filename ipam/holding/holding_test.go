package holding_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/holding"
	"github.com/ringlet/ringlet/ipam/space"
)

// saved returns the value of a record.
func saved(h *space.Holder) []byte {
	var out effect.Out
	w := effect.NewWriter(&out)
	holding.Save(&w, chronicle.PoolKey{Slot: 1}, 2, h, space.Freed, 3, 4)
	return out.Save[0].Value
}

// A record that was cut off, or has a state, kind or length that none has, is refused and no holder comes of it.
func TestParseRefuses(t *testing.T) {
	short := saved(&space.Holder{Kind: space.Client, Name: "web", Ref: "4f3a"})
	id := saved(&space.Holder{Kind: space.Container, Ref: strings.Repeat("4f", 32)})
	if _, _, packed, err := holding.Parse(id, &space.Record{}); !packed || err != nil {
		t.Fatalf("an ID: packed %v, %v", packed, err)
	}
	with := func(b []byte, at int, v byte) []byte {
		b = append([]byte{}, b...)
		b[at] = v
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":              nil,
		"another format":       with(short, 0, 9),
		"no such state":        with(short, 1, 7),
		"no such kind":         with(short, 2, 0),
		"no such packing":      with(short, 3, 2),
		"a reference, as ID":   with(short, 3, 1),
		"a name beyond it":     with(short, 38, 0xff),
		"a head that is short": short[:39],
		"an ID that is short":  id[:len(id)-1],
		"the old format, cut":  {1, 1, 1, 0, 0},
		"the old format, more": {1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0},
	} {
		if _, _, _, err := holding.Parse(b, &space.Record{}); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := holding.ParseKey(short[:19]); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a short key: %v", err)
	}
}

// Each part of a record comes back as it was.
func TestRoundTrip(t *testing.T) {
	h := space.Holder{Kind: space.Container, Key: 1 << 60, Network: 1 << 30, MAC: [6]byte{2, 0, 0, 0, 0, 9}}
	var rec space.Record
	if _, _, _, err := holding.Parse(saved(&h), &rec); err != nil {
		t.Fatal(err)
	}
	if want := (space.Record{Holder: h, State: space.Freed, Seq: 3, Since: 4}); rec != want {
		t.Errorf("%+v, want %+v", rec, want)
	}
}

// A record is written for each container that comes or goes.
func TestNoAllocations(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	h := &space.Holder{Kind: space.Container, Name: "web", Ref: strings.Repeat("4f", 32)}
	if n := testing.AllocsPerRun(100, func() {
		w.Reset(time.Time{})
		holding.Save(&w, chronicle.PoolKey{Slot: 1}, 2, h, space.Held, 3, 4)
		holding.Delete(&w, chronicle.PoolKey{Slot: 1}, 2)
	}); n > 0 {
		t.Errorf("%v allocations for a record", n)
	}
}
