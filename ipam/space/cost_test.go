package space

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/ringlet/ringlet/internal/heap"
	"github.com/ringlet/ringlet/ipam/addr"
)

// started is a container as the engine asks for its address: its ID comes with
// the engine's list.
func started(n int) Holder {
	h := others(n)
	h.Ref = ""
	return h
}

// TestNoAllocs holds the hot path to no allocation once records exist.
func TestNoAllocs(t *testing.T) {
	for _, size := range []addr.Count{1 << 8, 1 << 16, math.MaxUint64} {
		s := New(size)
		s.Own(addr.Range{End: 200})
		now := time.Unix(1, 0)
		for range 200 {
			s.take(s.pool(), started(0), now, time.Minute)
		}
		for o := range addr.Offset(100) {
			s.free(2*o, now)
		}
		n := 0
		for name, call := range map[string]func(){
			"take and free": func() {
				n++
				g, ok := s.take(s.pool(), started(n), now, time.Minute)
				if !ok {
					t.Fatal("nothing to take")
				}
				s.free(g.Offset, now)
			},
			"take and free in a range": func() {
				g, ok := s.take(addr.Range{Start: 64, End: 128}, started(0), now, time.Minute)
				if !ok {
					t.Fatal("nothing to take")
				}
				s.free(g.Offset, now)
			},
			"find, claim and free": func() {
				o, ok := s.former(started(0).Key)
				if !ok {
					t.Fatal("key not found")
				}
				s.claim(o, started(0), now)
				s.HeldBy(started(0).Key)
				s.free(o, now)
			},
		} {
			if got := testing.AllocsPerRun(1000, call); got != 0 {
				t.Errorf("size %d: %s: %v allocations, want 0", size, name, got)
			}
		}
	}
}

// TestAhead holds two spaces, large enough for what is asked of the memory ahead, to
// hand out the same whether it is asked or not, for a holder with a key and without,
// in the pool and in a range that cuts it.
func TestAhead(t *testing.T) {
	const n = 10 * nearBuckets
	now := time.Unix(1, 0)
	asked, other := New(2*n), New(2*n)
	both := func(call func(s *Space) any) {
		t.Helper()
		if a, b := call(asked), call(other); a != b {
			t.Fatalf("asked %+v, not asked %+v", a, b)
		}
	}
	for _, s := range []*Space{asked, other} {
		s.Own(s.pool())
		s.remember = n / 4
		for i := range n {
			s.take(s.pool(), others(i), now, 0)
		}
		for i := range n / 2 {
			s.free(addr.Offset(i*2), now)
		}
	}
	if asked.keys.buckets <= nearBuckets {
		t.Fatalf("%d buckets, which are too few to be asked for", asked.keys.buckets)
	}
	for i := range 1000 {
		want, h := asked.pool(), others(n+i)
		if i%2 == 0 {
			want = addr.Range{Start: 1000, End: n}
		}
		if i%3 == 0 {
			h.Key = NoKey
		}
		asked.Ahead(want, h.Key)
		both(func(s *Space) any { return s.Find(h.Key) })
		var at addr.Offset
		both(func(s *Space) any {
			g, ok := s.take(want, h, now, 0)
			at = g.Offset
			return fmt.Sprint(g.plain(), ok)
		})
		if i%5 == 0 {
			both(func(s *Space) any { return fmt.Sprint(s.free(at, now)) })
		}
	}
	if got := testing.AllocsPerRun(100, func() { asked.Ahead(asked.pool(), 1) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// TestMemory holds the goal P9, which is at most 64 bytes for each held address beyond
// the bytes of its holder's name and container ID, to what has been reached. A lone address
// in a wide pool may cost a page, but not kilobytes.
func TestMemory(t *testing.T) {
	const n = 100_000
	now := time.Unix(1, 0)
	for _, c := range []struct {
		name string
		next func(i int) addr.Offset
		most int64 // beyond the strings
	}{
		{"dense", func(i int) addr.Offset { return addr.Offset(i) }, 44},
		{"lone", func(int) addr.Offset { return addr.Offset(rand.Uint64N(math.MaxUint64)) }, 512},
	} {
		text := int64(0)
		before := heap.InUse()
		s := New(math.MaxUint64)
		s.Own(s.pool())
		for i := range n {
			h := others(i)
			h.Name, h.Ref = fmt.Sprintf("container-%06d", i), fmt.Sprintf("%064x", i)
			text = int64(len(h.Name) + len(h.Ref))
			if _, out := s.claim(c.next(i), h, now); out != Taken {
				t.Fatal(out)
			}
		}
		got := (heap.InUse()-before)/n - text
		t.Logf("%s: %d bytes for each held address beyond its strings", c.name, got)
		if got > c.most {
			t.Errorf("%s: %d bytes for each held address beyond its strings, want at most %d", c.name, got, c.most)
		}
		runtime.KeepAlive(s)
	}
}

// TestRecordSize fails when a field makes the record grow, or blocks past what Go's
// allocator has without loss.
func TestRecordSize(t *testing.T) {
	if got := unsafe.Sizeof(record{}); got != 56 {
		t.Errorf("a record has %d bytes, want 56", got)
	}
	if got := unsafe.Sizeof(shortBlock{}); got != 448 {
		t.Errorf("a short block has %d bytes, want 448, a size class without a header", got)
	}
	if got := unsafe.Sizeof(longBlock{}); got != 57344 {
		t.Errorf("a long block has %d bytes, want 57344: more than any size class, and whole pages", got)
	}
	if got := unsafe.Sizeof(page{}); got > 288 {
		t.Errorf("a page has %d bytes, want at most 288, a size class", got)
	}
}
