package space

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam/addr"
)

// at returns a time so many seconds after the tests' beginning of time.
func at(seconds int64) time.Time { return time.Unix(1_700_000_000+seconds, 0) }

// owning returns a space of a pool that is all mine.
func owning(size addr.Count) *Space {
	s := New(size)
	s.Own(s.pool())
	return s
}

// mustTake takes an address in want and fails the test unless it is o.
func mustTake(t *testing.T, s *Space, want addr.Range, now time.Time, o addr.Offset) given {
	t.Helper()
	g, ok := s.take(want, Holder{}, now, time.Minute)
	if !ok || g.Offset != o {
		t.Fatalf("took %d, %v, want %d", g.Offset, ok, o)
	}
	return g
}

// TestLeastRecentlyFreed states the rule of Take without a twin: what it
// hands out was never used, or nothing in want was freed longer ago and
// nothing in want was never used.
func TestLeastRecentlyFreed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 50
		s := owning(size)
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			start := rapid.IntRange(0, size-1).Draw(t, "start")
			want := addr.Range{Start: addr.Offset(start), End: addr.Offset(rapid.IntRange(start+1, size).Draw(t, "end"))}
			if rapid.Bool().Draw(t, "free") {
				s.free(want.Start, at(int64(i)))
				continue
			}
			before := map[addr.Offset]Record{}
			for o := want.Start; o < want.End; o++ {
				before[o] = s.Lookup(o)
			}
			g, ok := s.take(want, Holder{}, at(int64(i)), time.Minute)
			for o, r := range before {
				switch {
				case r.State == Held:
				case !ok:
					t.Fatalf("nothing to take in %v, %d is free", want, o)
				case r.State == Unused && before[g.Offset].State == Freed:
					t.Fatalf("took %d, used before, when %d was never used", g.Offset, o)
				case r.State == Freed && before[g.Offset].State == Freed && r.Since < before[g.Offset].Since:
					t.Fatalf("took %d, when %d was freed earlier", g.Offset, o)
				}
			}
			if ok && before[g.Offset].State == Held {
				t.Fatalf("took %d, which was held", g.Offset)
			}
		}
	})
}

func TestRemembersNoMoreThanNeeded(t *testing.T) {
	s := owning(math.MaxUint64)
	s.remember = 3
	for o := range addr.Offset(5) {
		mustTake(t, s, s.pool(), at(0), o)
	}
	for o := range addr.Offset(5) {
		s.free(4-o, at(10+int64(o)))
	}
	if g := mustTake(t, s, s.pool(), at(69), 5); g.Pressed || g.before.freed {
		t.Errorf("nothing had rested, and the grant is %+v", g)
	}
	if g := mustTake(t, s, s.pool(), at(70), 4); g.Pressed || g.before.rec.seq != 6 {
		t.Errorf("4 had rested just now, and the grant is %+v", g)
	}
	mustTake(t, s, s.pool(), at(71), 3)
	mustTake(t, s, s.pool(), at(100), 6) // only three are remembered
}

func TestPressed(t *testing.T) {
	s := owning(2)
	mustTake(t, s, s.pool(), at(0), 0)
	mustTake(t, s, s.pool(), at(0), 1)
	s.free(1, at(1))
	if g := mustTake(t, s, s.pool(), at(60), 1); !g.Pressed {
		t.Error("an address that rested 59 s of 60 is not pressed")
	}
	s.free(0, at(61))
	if g := mustTake(t, s, s.pool(), at(121), 0); g.Pressed {
		t.Error("an address that rested 60 s of 60 is pressed")
	}
	if g, ok := s.take(s.pool(), Holder{}, at(200), time.Minute); ok {
		t.Errorf("took %d of a full pool", g.Offset)
	}
}

func TestEnds(t *testing.T) {
	for _, size := range []addr.Count{1, 2, 63, 64, 65, 1 << 32, math.MaxUint64 - 1, math.MaxUint64} {
		s := owning(size)
		end := addr.Offset(size)
		last := addr.Range{Start: end - 1, End: end}
		if s.Unused() != size || s.Owned() != size || s.FreeIn(s.pool()) != size {
			t.Errorf("size %d: %d unused of %d", size, s.Unused(), s.Owned())
		}
		if _, ok := s.take(addr.Range{Start: end, End: math.MaxUint64}, Holder{}, at(0), 0); ok {
			t.Errorf("size %d: took something behind the end", size)
		}
		if _, out := s.claim(end, Holder{}, at(0)); out != NotMine {
			t.Errorf("size %d: claim behind the end: %v", size, out)
		}
		mustTake(t, s, last, at(0), end-1)
		if _, ok := s.take(last, Holder{}, at(0), 0); ok {
			t.Errorf("size %d: took the last address twice", size)
		}
		if free := s.FreeIn(last); free != 0 {
			t.Errorf("size %d: %d free where the only address is held", size, free)
		}
		for r := range s.Idle(at(0), 0) {
			if r != (addr.Range{End: end - 1}) {
				t.Errorf("size %d: %v is idle", size, r)
			}
		}
		s.free(end-1, at(1))
		if r := s.LargestFree(last, math.MaxUint64, false, at(1), time.Minute); !r.Empty() {
			t.Errorf("size %d: %v could be given, which rests", size, r)
		}
		if r := s.LargestFree(last, math.MaxUint64, true, at(1), time.Minute); r != last {
			t.Errorf("size %d: %v could be given, want %v", size, r, last)
		}
		mustTake(t, s, last, at(2), end-1)
		if err := s.Check(); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

func TestNothingMine(t *testing.T) {
	s := New(256)
	if _, ok := s.take(s.pool(), Holder{}, at(0), 0); ok {
		t.Error("took what is not mine")
	}
	if _, out := s.claim(1, Holder{}, at(0)); out != NotMine {
		t.Errorf("claim: %v", out)
	}
	if r := s.LargestFree(s.pool(), 256, true, at(0), 0); !r.Empty() {
		t.Errorf("%v could be given", r)
	}
	if _, changed := s.free(1, at(0)); changed {
		t.Error("freed what was never held")
	}
}

func TestGainBehindTheCursor(t *testing.T) {
	s := New(1000)
	s.Own(addr.Range{Start: 500, End: 600})
	mustTake(t, s, s.pool(), at(0), 500)
	s.Own(addr.Range{Start: 100, End: 101})
	mustTake(t, s, s.pool(), at(0), 100)
	mustTake(t, s, s.pool(), at(0), 501)
}

func TestSetAsideKeepsTheOrder(t *testing.T) {
	s := owning(4)
	for o := range addr.Offset(4) {
		mustTake(t, s, s.pool(), at(0), o)
	}
	for _, o := range []addr.Offset{2, 0, 3, 1} {
		s.free(o, at(1))
	}
	aside := addr.Range{Start: 2, End: 4}
	s.SetAside(aside)
	if _, out := s.claim(2, Holder{}, at(2)); out != SetAside {
		t.Errorf("claim of what is set aside: %v", out)
	}
	mustTake(t, s, s.pool(), at(2), 0)
	s.Restore(aside)
	mustTake(t, s, s.pool(), at(2), 2)
	mustTake(t, s, s.pool(), at(2), 3)
	mustTake(t, s, s.pool(), at(2), 1)
}

func TestWithdraw(t *testing.T) {
	s := owning(2)
	first := Holder{Name: "first", Key: KeyOf("n", "first")}
	g, _ := s.take(s.pool(), first, at(0), 0)
	if r, changed := s.Withdraw(g.Offset, g.Seq, &g.before); !changed || r != (Record{}) || s.Unused() != 2 {
		t.Errorf("withdrawn, never used: %+v, %v, %d unused", r, changed, s.Unused())
	}
	if _, changed := s.Withdraw(g.Offset, g.Seq, &g.before); changed {
		t.Error("withdrawn twice")
	}
	g, _ = s.take(s.pool(), first, at(1), 0)
	freed, _ := s.free(g.Offset, at(2))
	if r, changed := s.Withdraw(g.Offset, g.Seq, &g.before); changed || r != freed {
		t.Errorf("withdrawn after it was freed: %+v, %v", r, changed)
	}
	h, _ := s.claim(g.Offset, Holder{Name: "second"}, at(3))
	s.Describe(g.Offset, Holder{Name: "better known"})
	if r, changed := s.Withdraw(h.Offset, h.Seq, &h.before); !changed || r != freed {
		t.Errorf("withdrawn: %+v, %v, want %+v", r, changed, freed)
	}
	if o, ok := s.former(first.Key); !ok || o != g.Offset {
		t.Error("the former holder is forgotten")
	}
}

func TestStrays(t *testing.T) {
	s := owning(10)
	for o := range addr.Offset(3) {
		mustTake(t, s, s.pool(), at(0), o)
	}
	s.free(0, at(1))
	err := s.Disown(s.pool())
	lost, ok := errors.AsType[*HeldError](err)
	if !ok || lost.First != 1 || lost.Count != 2 || !strings.Contains(err.Error(), "2 held") {
		t.Fatalf("disowned with 1 and 2 held: %v", err)
	}
	if s.Strays() != 2 || s.Held() != 2 || s.Freed() != 0 || s.Owned() != 0 || s.Unused() != 0 {
		t.Errorf("%d strays, %d held, %d freed, %d owned, %d unused", s.Strays(), s.Held(), s.Freed(), s.Owned(), s.Unused())
	}
	if r, changed := s.free(1, at(2)); !changed || r.State != Unused {
		t.Errorf("freed a stray: %+v, %v", r, changed)
	}
	s.Own(s.pool())
	if s.Strays() != 0 || s.Unused() != 9 {
		t.Errorf("mine again: %d strays, %d unused", s.Strays(), s.Unused())
	}
}

func TestPutRefuses(t *testing.T) {
	s := owning(10)
	held := Record{State: Held, Seq: 7}
	if err := s.Put(3, held); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"twice":       s.Put(3, held),
		"outside":     s.Put(10, held),
		"not a state": s.Put(4, Record{State: 9}),
		"unused":      s.Put(4, Record{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := s.Put(4, Record{State: Held, Seq: 7, Holder: Holder{Key: 1}}); err != nil {
		t.Fatal(err)
	}
	s.Index()
	if err := s.Put(5, held); err == nil {
		t.Error("after Index: no error")
	}
	s.Seal()
	if g := mustTake(t, s, s.pool(), at(0), 0); g.Seq != 8 {
		t.Errorf("Seq goes on with %d after 7", g.Seq)
	}
}

// TestSegmentsSplitOnce looks at what the histories cannot see: that the
// queues are cut where ranges end, and nowhere twice.
func TestSegmentsSplitOnce(t *testing.T) {
	s := owning(100)
	for range 100 {
		s.take(s.pool(), Holder{}, at(0), 0)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	order := rng.Perm(100)
	for i, o := range order {
		s.free(addr.Offset(o), at(int64(i)))
	}
	part := addr.Range{Start: 20, End: 40}
	for _, o := range order {
		if o := addr.Offset(o); part.Contains(o) {
			mustTake(t, s, part, at(1000), o)
		}
	}
	if n := len(s.segments); n != 3 {
		t.Errorf("%d segments, want 3", n)
	}
	for _, o := range order {
		if o := addr.Offset(o); !part.Contains(o) {
			mustTake(t, s, s.pool(), at(1000), o)
		}
	}
}

// TestKeysAreFrozen keeps the keys that disks hold.
func TestKeysAreFrozen(t *testing.T) {
	for want, parts := range map[Key][]string{
		0xefd01f60ba992926: {},
		0xec4c77f3c812eb10: {"n", "web-1"},
		0xc470f882901487dc: {"m", "02:42:0a:01:02:03"},
	} {
		if got := KeyOf(parts...); got != want {
			t.Errorf("key of %q is %#x, want %#x", parts, uint64(got), uint64(want))
		}
	}
	if SeedOf("n").KeyOf("web-1") != KeyOf("n", "web-1") {
		t.Error("a key that is made of a seed is another one")
	}
	if KeyOf("ab", "c") == KeyOf("a", "bc") || KeyOf("a") == KeyOf("a", "") {
		t.Error("parts run together")
	}
}

// TestKeysGrow fills the index far enough to split every bucket many times.
func TestKeysGrow(t *testing.T) {
	const n = 5000
	s := owning(n)
	for i := range n {
		s.take(s.pool(), others(i/2), at(0), 0) // each key twice
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range n / 2 {
		if o, ok := s.HeldBy(others(i).Key); !ok || o != addr.Offset(2*i+1) {
			t.Fatalf("key %d is held by %d, %v", i, o, ok)
		}
	}
}

// TestGivenBackIsForgotten takes and loses space over and over, as a peer
// does that opens and closes ranges for years: nothing may pile up.
func TestGivenBackIsForgotten(t *testing.T) {
	s := New(math.MaxUint64)
	for i := range addr.Offset(10_000) {
		r := addr.Range{Start: i * 1024, End: i*1024 + 8}
		s.Own(r)
		s.take(s.pool(), others(int(i)), at(int64(i)), time.Minute)
		s.free(r.Start, at(int64(i)))
		if err := s.Disown(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{
		"pages": len(s.pages.all), "page bases": len(s.pages.order), "blocks": len(s.slab.short) + len(s.slab.long),
		"ranges": len(s.mine) + len(s.aside) + len(s.fresh), "buckets": s.keys.buckets, "segments": len(s.segments),
	} {
		if n > 2*pageLen {
			t.Errorf("%d %s are left of nothing", n, name)
		}
	}
}
