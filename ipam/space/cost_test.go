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

// TestMemory holds the goal P9: at most 64 bytes for each held address beyond
// the bytes of its holder's name and container ID. A lone address in a wide
// pool may cost a page, but not kilobytes.
func TestMemory(t *testing.T) {
	const n = 100_000
	now := time.Unix(1, 0)
	for _, c := range []struct {
		name string
		next func(i int) addr.Offset
		most int64 // beyond the strings
	}{
		{"dense", func(i int) addr.Offset { return addr.Offset(i) }, 64},
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

// TestRecordSize fails when a field makes the record grow past what its
// comment says.
func TestRecordSize(t *testing.T) {
	if got := unsafe.Sizeof(record{}); got != 48 {
		t.Errorf("a record has %d bytes, want 48", got)
	}
	if got := unsafe.Sizeof(page{}); got > 288 {
		t.Errorf("a page has %d bytes, want at most 288, a size class", got)
	}
}
