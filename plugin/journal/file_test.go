package journal

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/plugin/events"
)

// A line is what encoding/json makes of the record.
func TestLine(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 123, time.UTC)
	for _, r := range []record{
		{Event: events.Event{ID: events.ID{Boot: 3, Number: 9}, Time: at, Kind: events.Granted, Pool: lab, Address: addr(7), Holder: &events.Holder{Kind: "container", Name: "web", Since: at}}},
		{Inferred: true, Event: events.Event{ID: events.ID{Boot: 3, Number: 9}, Time: at, Kind: events.Freed, Text: "is free", Address: addr(7)}},
		{ToSelf: true, Event: events.Event{Kind: events.RangeMoved, Pool: lab, Address: addr(0), Last: addr(63), From: "free", To: "host-a"}},
		{FromSelf: true, Event: events.Event{Kind: events.RangeMoved, Pool: lab, Address: addr(0), Last: addr(63), From: "host-a", To: "host-b"}},
		{Inferred: true, ToSelf: true, FromSelf: true, Event: events.Event{Kind: events.RangeMoved, To: "host-a"}},
		{Inferred: true, Event: events.Event{Kind: events.ProblemBegan, Problem: &events.Problem{Code: "x"}}},
	} {
		want, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.appendLine(nil); err != nil || string(got) != string(want)+"\n" {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

// TestAppend writes more at once than a file shall have and than is written at a
// time: it stays together, and an end in between leaves whole lines.
func TestAppend(t *testing.T) {
	f := files{dir: t.TempDir(), maxBytes: 1000, maxFiles: 2}
	defer f.end()
	records := make([]record, 2*writeAtOnce/100)
	for i := range records {
		records[i].Event = events.Event{Kind: events.Granted, Pool: lab, Address: netip.AddrFrom4([4]byte{10, 50, byte(i >> 8), byte(i)}), Text: "is held by somebody, as this line tells"}
	}
	read := func() (n int) {
		t.Helper()
		err := f.read(t.Context(), hurried, func([]byte) bool { return true }, func(r *record) {
			if r.Address != records[n].Address {
				t.Fatalf("line %d is of %v, want %v", n, r.Address, records[n].Address)
			}
			n++
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.append(ended, records, false); !errors.Is(err, context.Canceled) || read() != 0 {
		t.Errorf("after the end: %v, %d lines", err, read())
	}
	if err := f.append(&countdown{Context: t.Context(), left: 1}, records, false); !errors.Is(err, context.Canceled) {
		t.Errorf("an end in between: %v", err)
	}
	some := read()
	if some == 0 || some == len(records) {
		t.Errorf("an end in between leaves %d of %d lines", some, len(records))
	}
	records = append(records[:some:some], records...)
	if err := f.append(t.Context(), records[some:], false); err != nil || read() != len(records) {
		t.Errorf("%v, %d of %d lines", err, read(), len(records))
	}
	if full, err := f.full(); err != nil || len(full) != 1 {
		t.Errorf("full files %q, %v; want one", full, err)
	}
}

// countdown ends once it was asked so often whether it has.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
