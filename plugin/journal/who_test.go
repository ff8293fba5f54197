package journal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/events"
)

// newShort starts a journal that soon begins anew.
func newShort(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.cfg.FileSize, b.cfg.Files = 4096, 3
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// rotate lets so much happen that no record from before is kept, and returns a
// time that the journal reaches back to.
func (b *bench) rotate() time.Time {
	b.t.Helper()
	for i := range 100 {
		b.grant(addr(1), fmt.Sprint("c", i), false)
		b.settle()
		b.free(addr(1), false)
		b.settle()
	}
	p, err := b.j.Who(b.t.Context(), addr(1), time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return p.Begins
}

// Who has had an address for longer than the files reach back is told, while he
// has it and afterwards, and of others that nobody had theirs.
func TestWhoHeldForLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newShort(t)
		granted := time.Now()
		b.grant(addr(7), "database", false)
		b.settle()
		begins := b.rotate()
		if !begins.After(granted) {
			t.Fatal("the grant is there still")
		}
		b.want(addr(7), granted.Add(-time.Second), "unknown")
		b.want(addr(7), granted, "held database")
		b.want(addr(7), begins, "held database")
		b.want(addr(8), begins, "free")
		b.free(addr(7), false)
		freed := time.Now()
		b.settle()
		b.want(addr(7), begins, "held database")
		b.want(addr(7), freed, "free database")
		if p, err := b.j.Who(b.t.Context(), addr(7), begins); err != nil || !p.Since.Equal(granted) || !p.Until.Equal(freed) {
			t.Errorf("got %+v, %v; want it from %v to %v", p, err, granted, freed)
		}
	})
}

// What a pool that is gone was used for is not known if only its end is told.
func TestWhoInRemovedPool(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newShort(t)
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NotePoolCreated, Pool: lab})
		b.settle()
		created := time.Now()
		b.want(addr(7), created, "free")
		begins := b.rotate()
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NotePoolDeleted, Pool: lab})
		removed := time.Now()
		b.settle()
		b.want(addr(7), begins, "unknown")
		b.want(addr(7), removed, "free")
	})
}

// As long as nobody has compared the journal with what is held, no record of an
// address does not mean that nobody has it.
func TestWhoBeforeComparing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newShort(t)
		b.grant(addr(1), "web", false)
		b.settle()
		b.j.known.Store(nil)
		b.want(addr(1), time.Now(), "held web")
		b.want(addr(7), time.Now(), "unknown")
	})
}

// Where it is not told since when, an address is held as far back as the files
// reach.
func TestWhoSinceUnknown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newShort(t)
		b.grant(addr(1), "web", false)
		begins := time.Now()
		time.Sleep(time.Minute)
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteFreed, Pool: lab, Address: addr(7), Use: ipam.Use{Kind: "container", Name: "old"}})
		b.settle()
		b.want(addr(7), begins.Add(-time.Second), "unknown")
		b.want(addr(7), begins, "held old")
		b.want(addr(7), time.Now(), "free old")
		if p, _ := b.j.Who(b.t.Context(), addr(7), begins); p.Holder == nil || *p.Holder != (events.Holder{Kind: "container", Name: "old"}) {
			t.Errorf("got %+v", p)
		}
	})
}

// What a new pool gave another host at once, of which no record tells, is that
// host's until a record says else, and what lay elsewhere in an earlier pool of that
// subnet does not for that in a later one.
func TestWhoInDealtRange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		note := func(n ipam.Note) (at time.Time) {
			n.Pool = lab
			at = time.Now()
			b.log.Note(at, n)
			b.settle()
			return at
		}
		b.start()
		defer func() { b.stop() }()
		first := note(ipam.Note{Kind: ipam.NotePoolCreated})
		gave := note(ipam.Note{Kind: ipam.NoteMoved, Address: addr(64), Last: addr(127), From: "host-b", To: "host-c"})
		removed := note(ipam.Note{Kind: ipam.NotePoolDeleted})
		second := note(ipam.Note{Kind: ipam.NotePoolCreated})
		b.owner = func(a netip.Addr) string { // as it was dealt out
			if a.Compare(addr(128)) < 0 {
				return ""
			}
			return "host-b"
		}
		took := note(ipam.Note{Kind: ipam.NoteMoved, Address: addr(192), Last: addr(223), From: "host-c", To: "host-b"})
		for _, c := range []struct {
			n    int
			at   time.Time
			want string
		}{
			{100, first, "elsewhere in host-b"},
			{100, gave, "elsewhere in host-c"},
			{100, removed, "free in "},
			{100, second, "free in "}, // this host's own by now
			{200, first, "free in "},  // nothing tells whose it was
			{200, removed, "free in "},
			{200, second, "elsewhere in host-c"},
			{200, took, "elsewhere in host-b"},
			{240, second, "elsewhere in host-b"},
			{300, first, "elsewhere in host-b"}, // in a pool that was there before the journal
			{300, first.Add(-time.Hour), "unknown in "},
		} {
			p, err := b.j.Who(b.t.Context(), addr(c.n), c.at)
			if got := p.State + " in " + p.Owner; err != nil || got != c.want {
				t.Errorf("%v after %v: got %q, %v, want %q", addr(c.n), c.at.Sub(first), got, err, c.want)
			}
		}
	})
}

// A question ends when nobody waits for its answer any more.
func TestWhoEndsWithItsCaller(t *testing.T) {
	f := files{dir: t.TempDir(), maxBytes: 1 << 30, maxFiles: 1}
	defer f.end()
	var records []record
	for i := range 3 * linesAtOnce {
		records = append(records, record{Event: events.Event{ID: events.ID{Boot: 1, Number: uint64(i + 1)}, Kind: events.Granted, Address: addr(1)}})
	}
	if err := f.append(t.Context(), records, false); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	n := 0
	err := f.read(ctx, leisurely, func([]byte) bool { return true }, func(*record) {
		if n++; n == 10 {
			cancel(gone)
		}
	})
	if !errors.Is(err, gone) || n > linesAtOnce {
		t.Errorf("%d of %d lines were read, and %v", n, len(records), err)
	}
}
