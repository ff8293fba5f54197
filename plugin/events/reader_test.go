package events

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

// TestGather: who gathers waits for the time, unless half of what is kept has
// come before, counted from what it has read itself.
func TestGather(t *testing.T) {
	tests := []struct {
		name         string
		size         int
		before, then int // events that come, and are not read, before it gathers, and meanwhile
		want         time.Duration
	}{
		{"nothing comes", 8, 0, 0, time.Second},
		{"little comes", 8, 1, 2, time.Second},
		{"half comes meanwhile", 8, 1, 3, 3 * time.Millisecond},
		{"half came before", 8, 4, 0, 0},
		{"more than is kept came before", 8, 20, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := filled(1, tt.size, 5)
				r, behind := l.Read(l.Last()), l.Read(l.Last())
				for i := range tt.before {
					l.Note(someTime, grant(i))
				}
				go func() {
					for i := range tt.then {
						time.Sleep(time.Millisecond) // of the bubble
						l.Note(someTime, grant(i))
					}
				}()
				begun := time.Now()
				r.Gather(t.Context(), time.Second)
				if got := time.Since(begun); got != tt.want {
					t.Errorf("gathered for %v, want %v", got, tt.want)
				}
				if _, err := behind.Kept(); (err != nil) != (tt.before > tt.size) {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// Two that gather wait for their own half each, and for no longer than they live.
func TestGatherTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := New(1, 0, 100)
		early, late := l.Read(ID{}), l.Read(ID{})
		for i := range 30 {
			l.Note(someTime, grant(i))
		}
		if n := len(numbers(t, late)); n != 30 {
			t.Fatalf("%d read", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var gathered [3]time.Duration
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { late.Gather(t.Context(), time.Hour); gathered[1] = time.Since(begun) })
		synctest.Wait()
		wg.Go(func() { early.Gather(t.Context(), time.Hour); gathered[0] = time.Since(begun) })
		wg.Go(func() { New(1, 0, 10).Read(ID{}).Gather(ctx, time.Hour); gathered[2] = time.Since(begun) })
		for i := range 60 {
			time.Sleep(time.Second) // of the bubble
			if l.Note(someTime, grant(i)); i == 6 {
				cancel()
			}
		}
		wg.Wait()
		if want := [3]time.Duration{20 * time.Second, 50 * time.Second, 7 * time.Second}; gathered != want {
			t.Errorf("gathered for %v, want %v", gathered, want)
		}
	})
}

// Strings of an event stay when the reader goes on, and one who wants no text
// gets the same events without.
func TestStringsStay(t *testing.T) {
	l := New(1, 0, 0)
	told, silent := l.Read(ID{}), l.ReadSilent(ID{})
	var want, got []string
	for n := 1; n <= 600; n++ {
		note := grant(n)
		note.Use.MAC, note.Use.Name = ipam.MAC{2, 0, 0, 0, byte(n >> 8), byte(n)}, ""
		l.Note(someTime, note)
		want = append(want, fmt.Sprintf("%v %v handed out to a container with MAC %v", note.Use.MAC, note.Address, note.Use.MAC))
	}
	for {
		list, err := told.Kept()
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			got = append(got, e.Holder.MAC+" "+e.Text)
		}
		without, err := silent.Kept()
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i].Text = ""
		}
		if diff := cmp.Diff(list, without, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Fatalf("without text (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("strings (-want +got):\n%s", diff)
	}
}
