package journal

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/events"
)

var lab = netip.MustParsePrefix("10.50.0.0/24")

func addr(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 50, byte(n >> 8), byte(n)}) }

// bench is a peer with a journal: what is held, what happened, what is written.
type bench struct {
	t   *testing.T
	dir string
	cfg Config

	name string // of the peer; empty: host-a
	boot uint64
	kept int // events that the log keeps; 0: 64
	log  *events.Log
	j    *Journal
	stop func()

	owner func(a netip.Addr) string // in whose range an address lies now; nil: this peer's

	mu       sync.Mutex
	held     map[netip.Addr]ipam.AddressStatus
	reported []error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{t: t, dir: filepath.Join(t.TempDir(), "journal"), held: map[netip.Addr]ipam.AddressStatus{}}
}

// start starts the process: a new boot, whose log is empty.
func (b *bench) start() {
	b.t.Helper()
	b.boot++
	b.log = events.New(b.boot, 0, cmp.Or(b.kept, 64))
	cfg := b.cfg
	cfg.Dir, cfg.Log, cfg.Self = b.dir, b.log, cmp.Or(b.name, "host-a")
	cfg.Held = func(context.Context) iter.Seq2[ipam.AddressStatus, error] {
		b.mu.Lock()
		list := maps.Clone(b.held)
		b.mu.Unlock()
		return func(yield func(ipam.AddressStatus, error) bool) {
			for _, a := range list {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
	cfg.Owner = func(a netip.Addr) string {
		if b.owner == nil {
			return ""
		}
		return b.owner(a)
	}
	cfg.Report = func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reported = append(b.reported, err)
	}
	j, err := New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.j = j
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = j.Run(ctx) }()
	b.stop = func() { cancel(); <-done }
	b.settle()
}

// settle lets the journal write what there is.
func (b *bench) settle() {
	time.Sleep(2 * gather)
	synctest.Wait()
}

// grant hands an address out; silent keeps it from the log, as if the process
// had ended before it could say so.
func (b *bench) grant(a netip.Addr, name string, silent bool) {
	b.mu.Lock()
	now := time.Now().UTC()
	b.held[a] = ipam.AddressStatus{Address: a, Pool: lab, State: "held", Kind: "container", Name: name, Since: now}
	b.mu.Unlock()
	if !silent {
		b.log.Note(now, ipam.Note{Kind: ipam.NoteGranted, Pool: lab, Address: a, Use: ipam.Use{Kind: "container", Name: name, Since: now}})
	}
}

func (b *bench) free(a netip.Addr, silent bool) {
	b.mu.Lock()
	was := b.held[a]
	delete(b.held, a)
	b.mu.Unlock()
	if !silent {
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteFreed, Pool: lab, Address: a, Use: ipam.Use{Kind: "container", Name: was.Name, Since: was.Since}})
	}
}

// who asks the journal, and puts the answer in a line.
func (b *bench) who(a netip.Addr, at time.Time) string {
	b.t.Helper()
	p, err := b.j.Who(b.t.Context(), a, at)
	if err != nil {
		b.t.Fatal(err)
	}
	text := p.State
	if p.Holder != nil {
		text += " " + p.Holder.Name
	}
	if p.Inferred {
		text += " inferred"
	}
	return text
}

func (b *bench) want(a netip.Addr, at time.Time, want string) {
	b.t.Helper()
	if got := b.who(a, at); got != want {
		b.t.Errorf("%v at %v: got %q, want %q", a, at, got, want)
	}
}

// Who had it when: before, during and after, over holders and starts.
func TestWho(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		before := time.Now()
		time.Sleep(time.Minute)
		b.grant(addr(1), "web", false)
		web := time.Now()
		time.Sleep(time.Minute)
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteDescribed, Pool: lab, Address: addr(1), Use: ipam.Use{Kind: "container", Name: "web", Container: "4f3a", Since: web}})
		b.free(addr(1), false)
		freed := time.Now()
		time.Sleep(time.Minute)
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteMoved, Pool: lab, Address: addr(0), Last: addr(63), From: "host-a", To: "host-b"})
		moved := time.Now()
		b.settle()
		b.stop()
		time.Sleep(time.Hour)
		b.start()
		b.grant(addr(1), "db", false)
		db := time.Now()
		b.settle()
		defer b.stop()

		b.want(addr(1), before.Add(-time.Hour), "unknown")
		b.want(addr(1), web.Add(-time.Second), "unknown") // the journal begins with it
		b.want(addr(1), web, "held web")
		b.want(addr(1), freed.Add(-time.Nanosecond), "held web")
		b.want(addr(1), freed, "free web")
		b.want(addr(1), db.Add(-time.Nanosecond), "elsewhere web")
		b.want(addr(1), db.Add(time.Hour), "held db")
		b.want(addr(2), db, "elsewhere")
		p, err := b.j.Who(b.t.Context(), addr(1), freed.Add(-time.Second))
		if err != nil || p.Holder.Container != "4f3a" || !p.Since.Equal(web) || !p.Until.Equal(freed) || !p.Begins.Equal(web) || p.Owner != "" {
			t.Errorf("got %+v, %v", p, err)
		}
		if p, _ := b.j.Who(b.t.Context(), addr(1), moved); p.Owner != "host-b" {
			t.Errorf("it lay in the range of %q", p.Owner)
		}
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteMoved, Pool: lab, Address: addr(0), Last: addr(63), From: "host-b", To: "host-a"})
		b.settle()
		if p, _ := b.j.Who(b.t.Context(), addr(1), time.Now()); p.Owner != "" {
			t.Errorf("its own address lies in the range of %q", p.Owner)
		}
		if p, _ := b.j.Who(b.t.Context(), addr(64), moved); p.Owner != "" {
			t.Errorf("its neighbour lay in the range of %q", p.Owner)
		}
	})
}

// A peer that goes by another name has the ranges that it had, and none that came to others; what it
// gave away was its own before.
func TestRenamed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NotePoolCreated, Pool: lab})
		b.settle()
		dealt := time.Now()
		time.Sleep(time.Second)
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteMoved, Pool: lab, Address: addr(128), Last: addr(191), From: "host-a", To: "host-b"})
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteMoved, Pool: lab, Address: addr(0), Last: addr(63), From: "free", To: "host-a"})
		b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteMoved, Pool: lab, Address: addr(64), Last: addr(127), From: "free", To: "host-b"})
		b.grant(addr(1), "web", false)
		b.free(addr(1), false)
		b.settle()
		b.stop()
		b.name = "host-c"
		b.start()
		defer b.stop()
		b.want(addr(1), time.Now(), "free web")
		b.want(addr(2), time.Now(), "free")
		b.want(addr(65), time.Now(), "elsewhere")
		b.want(addr(129), dealt, "free")
		b.want(addr(129), time.Now(), "elsewhere")
		if p, _ := b.j.Who(b.t.Context(), addr(1), time.Now()); p.Owner != "" {
			t.Errorf("its own address lies in the range of %q", p.Owner)
		}
	})
}

// What a crash has lost is found out at the next start, and marked as inferred;
// what was cut in the middle harms nothing.
func TestCrash(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.grant(addr(1), "web", false)
		b.grant(addr(2), "db", false)
		b.settle()
		b.stop()
		file := filepath.Join(b.dir, current)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The last line is cut, and later ones never came.
		if err := os.WriteFile(file, text[:len(text)-20], 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.free(addr(1), true)
		lost := time.Now()
		time.Sleep(time.Minute)
		b.grant(addr(3), "api", true)
		api := time.Now()
		time.Sleep(time.Hour)
		b.start()
		found := time.Now()
		defer b.stop()
		b.want(addr(1), lost.Add(time.Second), "held web inferred") // nobody knows better
		b.want(addr(1), found, "free web inferred")
		b.want(addr(2), found, "held db")
		b.want(addr(3), api, "held api")
		b.want(addr(3), api.Add(-time.Second), "free")
		b.grant(addr(4), "more", false)
		b.settle()
		b.want(addr(4), time.Now(), "held more")
	})
}

// A journal that was too slow for its log makes up for it, and tells nothing
// twice.
func TestTooSlow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		defer func() { b.stop() }()
		b.grant(addr(250), "old", false)
		b.settle()
		for i := range 200 { // the log keeps 64
			b.grant(addr(1+i), fmt.Sprint("c", i), false)
			if i%3 == 0 {
				b.free(addr(1+i), false)
			}
		}
		b.settle()
		for i := range 200 {
			want := fmt.Sprint("held c", i)
			if i%3 == 0 {
				continue // some of these never reached it
			}
			b.want(addr(1+i), time.Now(), want)
		}
		told := map[netip.Addr]int{}
		if err := b.j.files.read(b.t.Context(), hurried, func([]byte) bool { return true }, func(r *record) {
			if r.Kind == events.Granted {
				told[r.Address]++
			}
		}); err != nil {
			t.Fatal(err)
		}
		for a, n := range told {
			if n != 1 {
				t.Errorf("it is told %d times who has %v", n, a)
			}
		}
	})
}

// A journal keeps up with more events in a moment than go to the disk together:
// none is missed, so that nothing has to be found out by comparing.
func TestManyAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.kept = 4 * events.MaxBatch
		b.start()
		for round := range 3 {
			for i := range 3 * events.MaxBatch / 2 {
				b.grant(addr(7), fmt.Sprint("c", round, "-", i), false)
				b.free(addr(7), false)
			}
			b.settle()
		}
		n := 0
		if err := b.j.files.read(b.t.Context(), hurried, func([]byte) bool { return true }, func(r *record) {
			if n++; r.Inferred {
				t.Errorf("%v was inferred", r)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if want := 3 * 3 * events.MaxBatch; n != want {
			t.Errorf("%d records, want %d", n, want)
		}
		b.stop()
	})
}

// There are never more files than there may be, nor larger ones than by one
// batch, and the newest are kept.
func TestRotation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cfg.FileSize, b.cfg.Files = 4096, 3
		b.start()
		first := time.Now()
		for i := range 400 {
			b.grant(addr(1), fmt.Sprint("c", i), false)
			b.settle()
			b.free(addr(1), false)
			b.settle()
		}
		defer b.stop()
		list, err := os.ReadDir(b.dir)
		if err != nil || len(list) > 3 || len(list) < 2 {
			t.Fatalf("%d files, %v", len(list), err)
		}
		for _, e := range list {
			if info, err := e.Info(); err != nil || info.Size() > 4096+1024 || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", e.Name(), info, err)
			}
		}
		b.want(addr(1), first, "unknown")
		b.want(addr(1), time.Now(), "free c399")
	})
}

// A disk that cannot be written is reported, and nothing is lost when it can.
func TestDiskFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		if err := os.WriteFile(b.dir, nil, 0o600); err != nil { // in the way of the directory
			t.Fatal(err)
		}
		b.start()
		defer func() { b.stop() }()
		b.grant(addr(1), "web", false)
		at := time.Now()
		b.settle()
		b.mu.Lock()
		if len(b.reported) == 0 || b.reported[0] == nil {
			t.Errorf("reported %v", b.reported)
		}
		b.mu.Unlock()
		if err := os.Remove(b.dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retry)
		b.settle()
		b.want(addr(1), at, "held web")
		b.mu.Lock()
		if b.reported[len(b.reported)-1] != nil {
			t.Errorf("it still reports %v", b.reported)
		}
		b.mu.Unlock()
	})
}

// Through random grants, releases, crashes that lose the end of the file, and
// starts: at its end the journal knows just what is held, and of each moment
// that nothing was lost of, who had what.
func TestRandomHistory(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { live(t, seed) })
		})
	}
}

func live(t *testing.T, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	b := newBench(t)
	b.cfg.FileSize = 1 << 16
	b.start()
	type moment struct {
		at   time.Time
		held map[netip.Addr]string
	}
	var moments []moment
	for range 120 {
		silent := false
		if rnd.IntN(15) == 0 {
			b.settle()
			b.stop()
			silent = true
			if rnd.IntN(2) == 0 {
				truncate(t, filepath.Join(b.dir, current), int64(rnd.IntN(300)))
				moments = nil // some of it is lost
			}
		}
		for range 1 + rnd.IntN(5) {
			time.Sleep(time.Duration(1+rnd.IntN(1000)) * time.Millisecond)
			if a := addr(1 + rnd.IntN(12)); b.held[a].Name != "" {
				b.free(a, silent)
			} else {
				b.grant(a, fmt.Sprint("c", rnd.IntN(1000)), silent)
			}
		}
		if silent {
			b.start()
			moments = nil // what happened in between was inferred
		}
		time.Sleep(time.Millisecond)
		m := moment{at: time.Now(), held: map[netip.Addr]string{}}
		for a, s := range b.held {
			m.held[a] = s.Name
		}
		moments = append(moments, m)
		time.Sleep(time.Millisecond)
	}
	b.settle()
	defer b.stop()
	for _, m := range moments {
		for n := range 12 {
			a, got := addr(1+n), b.who(addr(1+n), m.at)
			name := strings.TrimSuffix(strings.TrimPrefix(got, "held "), " inferred")
			if held := strings.HasPrefix(got, "held"); held != (m.held[a] != "") || held && name != m.held[a] {
				t.Fatalf("%v at %v: the journal says %q, it was %q", a, m.at, got, m.held[a])
			}
		}
	}
}

func truncate(t *testing.T, file string, by int64) {
	t.Helper()
	info, err := os.Stat(file)
	if os.IsNotExist(err) {
		return // it was just begun anew
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, max(0, info.Size()-by)); err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a journal of nothing was made")
	}
}
