package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

var someTime = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// grant is the n-th grant of a test.
func grant(n int) ipam.Note {
	return ipam.Note{
		Kind: ipam.NoteGranted, Pool: netip.MustParsePrefix("10.50.0.0/16"), Address: netip.AddrFrom4([4]byte{10, 50, byte(n >> 8), byte(n)}),
		Use: ipam.Use{Kind: "container", Name: fmt.Sprint("c", n), Since: someTime},
	}
}

func filled(boot uint64, size, n int) *Log {
	l := New(boot, 0, size)
	for i := range n {
		l.Note(someTime, grant(i+1))
	}
	return l
}

// numbers returns the numbers of all events that a reader gets at once.
func numbers(t *testing.T, r *Reader) (out []uint64) {
	t.Helper()
	for {
		list, err := r.Kept()
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return out
		}
		for _, e := range list {
			out = append(out, e.ID.Number)
		}
	}
}

func TestReadFrom(t *testing.T) {
	tests := []struct {
		name  string
		after ID
		gap   *GapError
		first uint64 // number of the first event that comes; 11: none
	}{
		{"everything", ID{}, nil, 7},
		{"the middle", ID{5, 8, 0}, nil, 9},
		{"just before what is kept", ID{5, 6, 0}, nil, 7},
		{"the end", ID{5, 10, 0}, nil, 11},
		{"what is kept no more", ID{5, 5, 0}, &GapError{ID{5, 5, 0}, ID{5, 7, 0}}, 7},
		{"an earlier start", ID{4, 8, 0}, &GapError{ID{4, 8, 0}, ID{5, 7, 0}}, 7},
		{"the future", ID{5, 11, 0}, &GapError{ID{5, 11, 0}, ID{5, 7, 0}}, 7},
		{"a later start", ID{6, 1, 0}, &GapError{ID{6, 1, 0}, ID{5, 7, 0}}, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := filled(5, 4, 10).Read(tt.after)
			if tt.gap != nil {
				var gap *GapError
				if _, err := r.Kept(); !errors.As(err, &gap) || *gap != *tt.gap {
					t.Fatalf("got %v, want the gap %v", err, tt.gap)
				}
			}
			var want []uint64
			for n := tt.first; n <= 10; n++ {
				want = append(want, n)
			}
			if diff := cmp.Diff(want, numbers(t, r)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A reader that is too slow is told what it missed, and goes on.
func TestSlowReader(t *testing.T) {
	l := filled(1, 8, 3)
	r := l.Read(ID{})
	if got := numbers(t, r); len(got) != 3 {
		t.Fatalf("got %v", got)
	}
	for i := range 20 {
		l.Note(someTime, grant(4+i))
	}
	var gap *GapError
	if _, err := r.Kept(); !errors.As(err, &gap) || *gap != (GapError{ID{1, 3, 0}, ID{1, 16, 0}}) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff([]uint64{16, 17, 18, 19, 20, 21, 22, 23}, numbers(t, r)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Readers that wait are woken, each gets everything once and in order, and
// none of them holds up who puts in.
func TestManyReaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const total = 3000
		l := New(1, 0, total)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				r := l.Read(ID{})
				for want := uint64(1); want <= total; {
					list, err := r.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					for _, e := range list {
						if e.ID != (ID{1, want, 0}) || e.Holder.Name != fmt.Sprint("c", want) {
							t.Errorf("got %+v, want number %d", e, want)
							return
						}
						want++
					}
				}
			})
		}
		idle := l.Read(ID{}) // of which nobody ever asks for the next
		begun := time.Now()
		for i := range total {
			l.Note(time.Now(), grant(i+1))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		wg.Wait()
		if took := time.Since(begun); took > 0 {
			t.Errorf("putting in waited for %v", took)
		}
		if got := numbers(t, idle); len(got) != total {
			t.Errorf("who came late got %d events", len(got))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if _, err := idle.Next(ctx); !errors.Is(err, gone) {
			t.Errorf("who has gone got %v", err)
		}
	})
}

func TestNothingAtAll(t *testing.T) {
	l := New(3, 0, 0)
	if got := l.Last(); got != (ID{3, 0, 0}) {
		t.Errorf("last is %v", got)
	}
	if got := numbers(t, l.Read(l.Last())); got != nil {
		t.Errorf("got %v", got)
	}
	r := l.Read(ID{3, 0, 0})
	l.Note(someTime, grant(1))
	if got := numbers(t, r); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestID(t *testing.T) {
	for _, bad := range []string{"", "-", "17", "17-", "-42", "17-42-", "17-42-x", "17-42-1-1", "17-42-123456789", "a-1", "1--1", "18446744073709551616-1"} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("%q was read as %v", bad, id)
		}
	}
	for text, want := range map[string]ID{"17-42": {17, 42, 0}, "17-42-1f": {17, 42, 0x1f}, "17-42-9e3779b9": {17, 42, 0x9e3779b9}} {
		if id, err := ParseID(text); err != nil || id != want || id.String() != text {
			t.Errorf("%s: got %v, %v", text, id, err)
		}
	}
}

// A new database counts its boots anew, and one that was copied goes on where it
// was: of another start with the same number nobody reads on.
func TestReadAfterAnotherStart(t *testing.T) {
	logs := [2]*Log{New(1, 0x1111111100000000, 0), New(1, 0x2222222200000000, 0)}
	for _, l := range logs {
		for i := range 3 {
			l.Note(someTime, grant(i))
		}
	}
	for _, after := range []ID{logs[0].Last(), {1, 2, 0}, {1, 0, 0}} { // such without a draw are of an older release
		r := logs[1].Read(after)
		if gap, ok := errors.AsType[*GapError](second(r.Kept())); !ok || gap.After != after || gap.Before.Number != 1 {
			t.Errorf("after %v: got %v, want a gap", after, gap)
		}
		if got := numbers(t, r); len(got) != 3 {
			t.Errorf("after %v: got %v, want all", after, got)
		}
	}
	if got := numbers(t, logs[1].Read(logs[1].Last())); got != nil {
		t.Errorf("got %v, want nothing more", got)
	}
}

func second(_ []Event, err error) error { return err }

func TestProblems(t *testing.T) {
	p := func(code, text string) ipam.Problem { return ipam.Problem{Code: code, Text: text, Level: "degraded"} }
	unreachable := p("peer-unreachable", "unreachable: host-b")
	conflictA := p("conflict", "10.50.0.7 in lab is used by container web on host-a since 2026-11-21 09:12 UTC, but is held")
	conflictB := p("conflict", "10.50.0.9 in lab is used by container db on host-a since 2026-11-21 09:12 UTC, but is held")
	l := New(1, 0, 0)
	r := l.Read(ID{})
	for _, step := range []struct {
		now  []ipam.Problem
		want []string
	}{
		{nil, nil},
		{[]ipam.Problem{unreachable}, []string{"problem-began unreachable: host-b"}},
		{[]ipam.Problem{unreachable, {Code: "started-over", Text: "this host started over", Level: "fine"}}, nil},
		{[]ipam.Problem{p("peer-unreachable", "unreachable: host-b, host-c")}, []string{"problem-changed unreachable: host-b, host-c"}},
		{[]ipam.Problem{conflictA, conflictB}, []string{
			"problem-began " + conflictA.Text, "problem-began " + conflictB.Text, "problem-ended ended: unreachable: host-b, host-c",
		}},
		{[]ipam.Problem{conflictB}, []string{"problem-ended ended: " + conflictA.Text}},
		{[]ipam.Problem{p("quarantine", "host-c was evicted, and 12 addresses that it may be using are kept back")}, []string{
			"problem-began host-c was evicted, and 12 addresses that it may be using are kept back", "problem-ended ended: " + conflictB.Text,
		}},
		{[]ipam.Problem{p("quarantine", "host-c was evicted, and 9 addresses that it may be using are kept back")}, nil},
		{[]ipam.Problem{p("not-answering", "silent for 12s; shown is 2026-11-21 09:12:00 UTC")}, []string{
			"problem-began silent for 12s; shown is 2026-11-21 09:12:00 UTC", "problem-ended ended: host-c was evicted, and 9 addresses that it may be using are kept back",
		}},
		{[]ipam.Problem{p("not-answering", "silent for 1h0m0s; shown is 2026-11-21 09:12:00 UTC")}, nil},
	} {
		if changed := l.Problems(someTime, step.now); changed != (len(step.want) > 0) {
			t.Errorf("%+v: changed is %v, want %v", step.now, changed, len(step.want) > 0)
		}
		var got []string
		list, err := r.Kept()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			got = append(got, e.Kind+" "+e.Text)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", step.now, diff)
		}
	}
}

// Each note reads well, and as one kind that nothing else has.
func TestSentences(t *testing.T) {
	a, pool := netip.MustParseAddr("10.50.0.7"), netip.MustParsePrefix("10.50.0.0/24")
	use := ipam.Use{Kind: "container", Container: "4f3a2b1c0d9e8f7a", Name: "web", MAC: ipam.MAC{2, 0, 0, 0, 0, 7}, Since: someTime}
	at := func(k ipam.NoteKind, u ipam.Use) ipam.Note { return ipam.Note{Kind: k, Pool: pool, Address: a, Use: u} }
	tests := []struct {
		note ipam.Note
		want string
	}{
		{at(ipam.NoteGranted, use), "granted: 10.50.0.7 handed out to container web (4f3a2b1c0d9e)"},
		{at(ipam.NoteGranted, ipam.Use{Kind: "client", Container: "printer-3", Since: someTime}), `granted: 10.50.0.7 handed out to "printer-3"`},
		{at(ipam.NoteGranted, ipam.Use{Kind: "gateway", Since: someTime}), "granted: 10.50.0.7 handed out to the engine, as gateway"},
		{at(ipam.NoteGranted, ipam.Use{Kind: "container", MAC: ipam.MAC{2, 0, 0, 0, 0, 7}, Since: someTime}), "granted: 10.50.0.7 handed out to a container with MAC 02:00:00:00:00:07"},
		{at(ipam.NoteFreed, use), "freed: 10.50.0.7 freed, was held by container web (4f3a2b1c0d9e)"},
		{at(ipam.NoteStranger, ipam.Use{Kind: "stranger", MAC: ipam.MAC{2, 0, 0, 0, 0, 7}, Since: someTime}), "stranger: 10.50.0.7 set aside: another device on the network answers for it, with MAC 02:00:00:00:00:07"},
		{ipam.Note{Kind: ipam.NoteMoved, Pool: pool, Address: a, Last: a.Next(), From: "free", To: "host-b"}, "range-moved: 10.50.0.7-10.50.0.8: free -> host-b"},
		{ipam.Note{Kind: ipam.NoteMoved, Pool: pool, Address: a, Last: a, From: "host-a", To: "reserved"}, "range-moved: 10.50.0.7: host-a -> reserved"},
		{ipam.Note{Kind: ipam.NotePeerJoined, Holder: "host-b"}, "peer-joined: host-b: joined the cluster"},
		{ipam.Note{Kind: ipam.NotePoolCreated, Pool: pool}, "pool-created: pool created: 10.50.0.0/24"},
		{ipam.Note{Kind: ipam.NoteSuspended, Holder: "the disk was copied"}, "suspended: this host stopped handing out addresses: the disk was copied"},
		{ipam.Note{Kind: ipam.NoteConflict, Pool: pool, Address: a, Holder: "10.50.0.7 is used by web, but is held"}, "conflict: 10.50.0.7 is used by web, but is held"},
		{ipam.Note{Kind: ipam.NoteLeakMended, Pool: pool, Address: a, Holder: "container web"}, "leak-mended: 10.50.0.7 freed, because its container is gone: container web"},
	}
	l := New(1, 0, 0)
	r := l.Read(ID{})
	for _, tt := range tests {
		l.Note(someTime, tt.note)
		list, err := r.Kept()
		if err != nil || len(list) != 1 {
			t.Fatalf("%v: %d events, %v", tt.note, len(list), err)
		}
		if got := list[0].Kind + ": " + list[0].Text; got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
	l.Note(someTime, ipam.Note{Kind: ipam.NoteGiven, Pool: pool, Address: a, Holder: "host-b"})
	if list, _ := r.Kept(); len(list) > 0 {
		t.Errorf("a gift was told twice: %+v", list)
	}
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k] || strings.ToLower(k) != k || k == "" {
			t.Errorf("kind %q", k)
		}
		seen[k] = true
	}
	for k := ipam.NotePoolCreated; k <= ipam.NoteAnswered; k++ {
		if kindOf(k) == "" && k != ipam.NoteGiven && k != ipam.NoteAnswered {
			t.Errorf("note kind %d is no event", k)
		}
	}
}

// BenchmarkNote asks what an event costs the node: far less than the commit
// before it. 5 µs are accepted alone, 50 µs with 32 readers that keep both
// cores busy.
func BenchmarkNote(b *testing.B) {
	for _, readers := range []int{0, 32} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			l := New(1, 0, 0)
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for range readers {
				wg.Go(func() {
					for r := l.Read(ID{}); ctx.Err() == nil; {
						_, _ = r.Next(ctx)
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				l.Note(someTime, grant(1))
			}
			cancel()
			wg.Wait()
		})
	}
}

// BenchmarkRead asks what it costs to read an event, and to write it down. A
// tenth of a durable call is accepted, some 5 µs.
func BenchmarkRead(b *testing.B) {
	for name, read := range map[string]func(*Log, ID) *Reader{"silent": (*Log).ReadSilent, "told": (*Log).Read} {
		b.Run(name, func(b *testing.B) {
			l := New(1, 0, MaxBatch)
			for i := range MaxBatch {
				l.Note(someTime, grant(i))
			}
			from, r := ID{}, read(l, ID{})
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%MaxBatch != 0 {
					continue // the time is that of one
				}
				r.ring.next = from.Number + 1
				list, err := r.Kept()
				if err != nil || len(list) != MaxBatch {
					b.Fatalf("%d events, %v", len(list), err)
				}
				for i := range list {
					if _, err := json.Marshal(&list[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
