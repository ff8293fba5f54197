package space

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/ipam/addr"
)

// bitmap is what Take and Free are measured against: the least that an
// allocator can do, a bit for each address, a summary bit for each 64 of them,
// and a cursor. It knows neither holders nor the order of freeing.
type bitmap struct {
	full   []uint64 // bit i of word j: words[64*j+i] has no free bit
	words  []uint64 // bit set: held
	cursor int
}

func newBitmap(n int) *bitmap {
	words := (n + 63) / 64
	b := &bitmap{words: make([]uint64, words), full: make([]uint64, (words+63)/64)}
	for i := words; i < 64*len(b.full); i++ {
		b.full[i/64] |= 1 << (i % 64)
	}
	return b
}

func (b *bitmap) claim(o int) {
	w := o / 64
	b.words[w] |= 1 << (o % 64)
	if b.words[w] == math.MaxUint64 {
		b.full[w/64] |= 1 << (w % 64)
	}
}

func (b *bitmap) free(o int) {
	w := o / 64
	b.words[w] &^= 1 << (o % 64)
	b.full[w/64] &^= 1 << (w % 64)
}

func (b *bitmap) take() (int, bool) {
	w := b.cursor / 64
	if free := ^b.words[w] & (math.MaxUint64 << (b.cursor % 64)); free != 0 {
		return b.found(w*64 + bits.TrailingZeros64(free)), true
	}
	first := w / 64
	mask := uint64(math.MaxUint64) << (w % 64) << 1
	for n := range len(b.full) + 1 {
		j := (first + n) % len(b.full)
		if free := ^b.full[j] & mask; free != 0 {
			w = j*64 + bits.TrailingZeros64(free)
			return b.found(w*64 + bits.TrailingZeros64(^b.words[w])), true
		}
		mask = math.MaxUint64
	}
	return 0, false
}

func (b *bitmap) found(o int) int {
	b.claim(o)
	b.cursor = (o + 1) % (64 * len(b.words))
	return o
}

// fills are the pools and fills that the speed goals name. held of the first
// window addresses are held, at random; the window bounds what the benchmark
// needs of memory, and for the bitmap stands for the pool.
var fills = []struct {
	name         string
	size         addr.Count
	window, held int
}{
	{"prefix=24/used=0%", 1 << 8, 1 << 8, 0},
	{"prefix=24/used=50%", 1 << 8, 1 << 8, 1 << 7},
	{"prefix=24/used=99%", 1 << 8, 1 << 8, 253},
	{"prefix=16/used=0%", 1 << 16, 1 << 16, 0},
	{"prefix=16/used=50%", 1 << 16, 1 << 16, 1 << 15},
	{"prefix=16/used=99%", 1 << 16, 1 << 16, 1<<16 - 655},
	{"prefix=12/used=50%", 1 << 20, 1 << 20, 1 << 19},
	{"prefix=12/used=99%", 1 << 20, 1 << 20, 1<<20 - 1<<13},
	{"prefix=8/used=0%", 1 << 24, 1 << 24, 0},
	{"prefix=8/used=1M", 1 << 24, 1 << 24, 1 << 20},
	{"prefix=64/used=0%", math.MaxUint64, 1 << 24, 0},
	{"prefix=64/used=1M", math.MaxUint64, 1 << 24, 1 << 20},
}

var holder = Holder{
	Kind: Container, Name: "web-1", Ref: "4c01db0b339c", Key: KeyOf("n", "web-1"),
	Network: 1, MAC: [6]byte{2, 0x42, 10, 1, 2, 3},
}

// others keeps keys apart, as those of different containers are.
func others(n int) Holder {
	h := holder
	h.Key = Key(uint64(n+1) * 0x9e3779b97f4a7c15)
	return h
}

// filled returns a space with held addresses, at random in the window.
func filled(size addr.Count, window, held int) *Space {
	s := New(size)
	s.Own(s.pool())
	now := time.Unix(1, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	for n, o := range rng.Perm(window)[:held] {
		s.claim(addr.Offset(o), others(n), now)
	}
	return s
}

// cpuTime returns the processor time that this thread has used, which other
// programs on the machine do not change as they change the time of day.
func cpuTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkPair asks what it costs to look for a key, as the core does, to take an
// address and to free it, and how that compares with the bitmap's cost, in turns in
// one run. The goals: at most 3 times the bitmap in an empty /16 (P1), and at most
// 1.5 times the space's own cost there for all others (P2). One op is 1,000 pairs of
// each.
func BenchmarkPair(b *testing.B) {
	const pairs = 1000
	for _, f := range fills {
		b.Run(f.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := filled(f.size, f.window, f.held)
			now := time.Unix(2, 0)
			pool := s.pool()
			n := 0
			spacePairs := func() {
				h := holder
				for range pairs {
					now = now.Add(time.Millisecond)
					n++
					h.Key = Key(uint64(n) * 0x9e3779b97f4a7c15)
					var before Past
					s.Ahead(pool, h.Key)
					s.Find(h.Key)
					g, _ := s.Take(pool, &h, now, time.Minute, &before)
					s.free(g.Offset, now)
				}
			}
			m := newBitmap(f.window)
			for _, o := range rand.New(rand.NewPCG(1, 1)).Perm(f.window)[:f.held] {
				m.claim(o)
			}
			for range 2 * rememberMax / pairs { // until records are reused
				spacePairs()
			}
			runtime.GC()
			b.ReportAllocs()
			var space, bitmap time.Duration
			for b.Loop() {
				start := cpuTime()
				spacePairs()
				middle := cpuTime()
				for range pairs {
					o, _ := m.take()
					m.free(o)
				}
				space, bitmap = space+middle-start, bitmap+cpuTime()-middle
			}
			b.ReportMetric(0, "ns/op") // meaningless
			b.ReportMetric(float64(space)/float64(b.N)/pairs, "cpu-ns/pair")
			b.ReportMetric(float64(bitmap)/float64(b.N)/pairs, "bitmap-ns/pair")
			b.ReportMetric(float64(space)/float64(bitmap), "x-bitmap")
		})
	}
}

// BenchmarkClaimFree asks what it costs to claim and free random addresses.
func BenchmarkClaimFree(b *testing.B) {
	for _, size := range []addr.Count{1 << 16, 1 << 24, math.MaxUint64} {
		b.Run(fmt.Sprintf("size=2^%d", bits.Len64(uint64(size-1))), func(b *testing.B) {
			s := New(size)
			s.Own(s.pool())
			rng := rand.New(rand.NewPCG(1, 1))
			offsets := make([]addr.Offset, 1<<15)
			now := time.Unix(1, 0)
			for i := range offsets {
				offsets[i] = addr.Offset(rng.Uint64N(uint64(size)))
				s.claim(offsets[i], others(i), now)
				s.free(offsets[i], now)
			}
			runtime.GC()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.claim(offsets[i], holder, now)
				s.free(offsets[i], now)
				i = (i + 1) % len(offsets)
			}
		})
	}
}

// BenchmarkLargestFree asks what a donor pays to find what it can give, in a
// pool that is half full at random: it reads all pages, so well under a
// millisecond for a /16 will do.
func BenchmarkLargestFree(b *testing.B) {
	s := filled(1<<16, 1<<16, 1<<15)
	b.ReportAllocs()
	for b.Loop() {
		s.LargestFree(s.pool(), 1024, false, time.Unix(3, 0), time.Minute)
	}
}

// BenchmarkRestart asks what it costs to bring 100,000 records back, half of
// them freed.
func BenchmarkRestart(b *testing.B) {
	old := filled(1<<20, 1<<20, 100_000)
	for o := range old.HeldIn(old.pool()) {
		if o%2 == 0 {
			old.free(o, time.Unix(2, 0))
		}
	}
	type entry struct {
		o   addr.Offset
		rec Record
	}
	var disk []entry
	for o, r := range old.Records(old.pool()) {
		disk = append(disk, entry{o, r})
	}
	b.ReportAllocs()
	for b.Loop() {
		s := New(1 << 20)
		s.Own(s.pool())
		for _, e := range disk {
			if err := s.Put(e.o, e.rec); err != nil {
				b.Fatal(err)
			}
		}
		s.Seal()
	}
}
