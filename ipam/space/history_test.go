package space

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam/addr"
)

var seed = flag.Uint64("seed", 0, "seed of the random histories, 0 for a new one")

// dice returns a number from 0 to n-1. Where a history gets its numbers from
// is all that distinguishes the random tests.
type dice func(n int) int

// history drives a Space and its twin through the same calls.
type history struct {
	dice   dice
	window addr.Range
	s      *Space
	w      *twin
	now    time.Time
	rest   time.Duration
	grants []given // the last few
	last   string  // what the last step did
}

// newHistory begins with a pool that ends with a window of some addresses, all
// that is ever touched.
func newHistory(d dice, before addr.Offset, length int) *history {
	window := addr.Range{Start: before, End: before + addr.Offset(length)}
	h := &history{dice: d, window: window, now: time.Unix(1_700_000_000, 0), rest: 4 * time.Second}
	remember := []int{rememberMax, rememberMax, 0, 3, length / 2}[d(5)]
	h.s, h.w = New(addr.Count(window.End)), newTwin(window, remember)
	h.s.remember = remember
	return h
}

// someHistory begins a history of a random shape.
func someHistory(d dice) *history {
	length := []int{1, 2, 4, 10, 70, 150}[d(6)]
	before := []addr.Offset{0, 0, 30, 64*1000 + 60, math.MaxUint64 - addr.Offset(length)}[d(5)]
	h := newHistory(d, before, length)
	if d(4) > 0 {
		h.s.Own(h.window)
		h.w.own(h.window)
	}
	return h
}

func (h *history) offset() addr.Offset {
	return h.window.Start + addr.Offset(h.dice(int(h.window.Size())))
}

func (h *history) span() addr.Range {
	a, b := h.offset(), h.offset()
	return addr.Range{Start: min(a, b), End: max(a, b) + 1}
}

// want is what Take is asked for: few ranges, again and again.
func (h *history) want() addr.Range {
	half := h.window.Start + addr.Offset(h.window.Size()/2)
	switch h.dice(8) {
	case 0:
		return h.span()
	case 1:
		return addr.Range{Start: half, End: h.window.End}
	case 2:
		return addr.Range{Start: h.window.Start, End: half}
	case 3:
		return h.s.pool().Intersect(addr.Range{Start: half, End: math.MaxUint64})
	default:
		return h.s.pool()
	}
}

func (h *history) key() Key {
	if n := h.dice(8); n > 0 {
		return KeyOf("n", string(rune('a'+n)))
	}
	return NoKey
}

func (h *history) holder() Holder {
	n := h.dice(1000)
	return Holder{
		Kind: Kind(n%4 + 1), Name: fmt.Sprintf("web-%d", n), Ref: fmt.Sprintf("%x", n*n),
		Key: h.key(), Network: uint32(n), MAC: [6]byte{2, byte(n)},
	}
}

// step makes one call on both and returns how they differ.
func (h *history) step() error {
	h.now = h.now.Add(time.Duration(h.dice(3)) * time.Second)
	var got, want any
	switch h.dice(22) {
	case 0, 1, 2, 3, 4:
		r, who := h.want(), h.holder()
		h.last = fmt.Sprintf("take in %v", r)
		g, ok := h.s.take(r, who, h.now, h.rest)
		wg, wok := h.w.take(r, who, h.now, h.rest)
		got, want = []any{g.plain(), ok}, []any{wg, wok}
		h.granted(g, ok)
	case 5, 6:
		o, who := h.offset(), h.holder()
		h.last = fmt.Sprintf("claim %d", o)
		g, out := h.s.claim(o, who, h.now)
		wg, wout := h.w.claim(o, who, h.now)
		got, want = []any{g.plain(), out}, []any{wg, wout}
		h.granted(g, out == Taken)
	case 7, 8, 9, 10, 11:
		o := h.offset()
		h.last = fmt.Sprintf("free %d", o)
		r, ok := h.s.free(o, h.now)
		wr, wok := h.w.free(o, h.now)
		got, want = []any{r, ok}, []any{wr, wok}
	case 12:
		if len(h.grants) == 0 {
			return nil
		}
		g := h.grants[h.dice(len(h.grants))]
		h.last = fmt.Sprintf("withdraw %d, Seq %d", g.Offset, g.Seq)
		r, ok := h.s.Withdraw(g.Offset, g.Seq, &g.before)
		wr, wok := h.w.withdraw(g.plain())
		got, want = []any{r, ok}, []any{wr, wok}
	case 13:
		o, who := h.offset(), h.holder()
		h.last = fmt.Sprintf("describe %d", o)
		r, ok := h.s.Describe(o, who)
		wr, wok := h.w.describe(o, who)
		got, want = []any{r, ok}, []any{wr, wok}
	case 14:
		r := h.span()
		h.last = fmt.Sprintf("own %v", r)
		h.s.Own(r)
		h.w.own(r)
	case 15:
		r := h.span()
		h.last = fmt.Sprintf("disown %v", r)
		var found HeldError
		if err, ok := errors.AsType[*HeldError](h.s.Disown(r)); ok {
			found = *err
		}
		held := h.w.disown(r)
		var wanted HeldError
		if len(held) > 0 {
			wanted = HeldError{First: held[0], Count: addr.Count(len(held))}
		}
		got, want = found, wanted
	case 16:
		r := h.span()
		h.last = fmt.Sprintf("set aside %v", r)
		h.s.SetAside(r)
		h.w.setAside(r, true)
	case 17:
		r := h.span()
		if h.dice(2) == 0 {
			r = h.window
		}
		h.last = fmt.Sprintf("restore %v", r)
		h.s.Restore(r)
		h.w.setAside(r, false)
	case 18:
		k := h.key()
		h.last = fmt.Sprintf("former and holder of key %x", uint64(k))
		o, ok := h.s.former(k)
		p, held := h.s.HeldBy(k)
		wo, wok := h.w.byKey(k, Freed)
		wp, wheld := h.w.byKey(k, Held)
		got, want = []any{o, ok, p, held}, []any{wo, wok, wp, wheld}
	case 19, 20:
		h.last = "look for free ranges"
		got, want = h.vacancies()
	case 21:
		h.last = "restart"
		if err := h.restart(); err != nil {
			return err
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("differs (-want +got):\n%s", diff)
	}
	return h.w.compare(h.s, h.now, h.rest)
}

func (h *history) granted(g given, ok bool) {
	if ok {
		h.grants = append(h.grants[max(0, len(h.grants)-5):], g)
	}
}

// vacancies returns what both say about free ranges.
func (h *history) vacancies() (got, want any) {
	r, resting := h.span(), h.dice(2) == 0
	limit := addr.Count(h.dice(20))
	var free addr.Count
	for _, run := range h.w.vacant(r, false, h.now, h.rest) {
		free += run.Size()
	}
	var best addr.Range
	if limit > 0 {
		for _, run := range h.w.vacant(r, !resting, h.now, h.rest) {
			if b := run.LargestBlock(limit); b.Size() > best.Size() {
				best = b
			}
		}
	}
	var held addr.Count
	for o, rec := range h.w.rec {
		if rec.State == Held && r.Contains(o) {
			held++
		}
	}
	idle := slices.Collect(h.s.Idle(h.now, h.rest))
	return []any{h.s.FreeIn(r), h.s.CountHeld(r), h.s.LargestFree(r, limit, resting, h.now, h.rest), idle},
		[]any{free, held, best, h.w.vacant(h.window, true, h.now, h.rest)}
}

// restart makes the space anew from what a disk would hold.
func (h *history) restart() error {
	type entry struct {
		o   addr.Offset
		rec Record
	}
	var disk []entry
	for o, r := range h.s.Records(h.s.pool()) {
		disk = append(disk, entry{o, r})
	}
	if o := h.offset(); !h.w.mine[o] && h.w.rec[o].State == Unused { // a record that the disk kept too long
		disk = append(disk, entry{o, Record{State: Freed, Seq: 1, Holder: h.holder()}})
	}
	for i := len(disk) - 1; i > 0; i-- {
		j := h.dice(i + 1)
		disk[i], disk[j] = disk[j], disk[i]
	}
	s := New(h.s.Size())
	s.remember = h.s.remember
	load := func() error {
		for _, e := range disk {
			if err := s.Put(e.o, e.rec); err != nil {
				return err
			}
		}
		if h.dice(2) == 0 {
			s.Index()
		}
		return nil
	}
	early := h.dice(2) == 0 // the records first, or the ranges
	if early {
		if err := load(); err != nil {
			return err
		}
	}
	for r := range h.s.Aside() {
		s.SetAside(r)
	}
	for r := range h.s.Ranges() {
		s.Own(r)
	}
	if !early {
		if err := load(); err != nil {
			return err
		}
	}
	s.Seal()
	h.s, h.w.seq, h.grants = s, 0, nil
	for _, e := range disk {
		h.w.seq = max(h.w.seq, e.rec.Seq)
	}
	return nil
}

func TestHistoriesSeeded(t *testing.T) {
	first := *seed
	histories := 1
	if first == 0 {
		first = rand.Uint64()
		histories = 300
	}
	for n := range uint64(histories) {
		rng := rand.New(rand.NewPCG(first+n, 0))
		h := someHistory(rng.IntN)
		for i := range 200 {
			if err := h.step(); err != nil {
				t.Fatalf("seed %d, step %d: %s: %v (again with -seed=%d)", first+n, i, h.last, err, first+n)
			}
		}
	}
}

func TestHistoriesRapid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := someHistory(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") })
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if err := h.step(); err != nil {
				t.Fatalf("%s: %v", h.last, err)
			}
		}
	})
}

// TestHistoriesManySegments has more ends of ranges than there can be
// segments, so that queues are walked.
func TestHistoriesManySegments(t *testing.T) {
	for n := range uint64(4) {
		rng := rand.New(rand.NewPCG(n, 1))
		h := newHistory(rng.IntN, 0, 700)
		h.s.Own(h.window)
		h.w.own(h.window)
		for i := range 1000 {
			who := Holder{Name: fmt.Sprint(i)}
			o := h.offset()
			h.s.claim(o, who, h.now)
			h.w.claim(o, who, h.now)
			o = h.offset()
			h.s.free(o, h.now)
			h.w.free(o, h.now)
		}
		for o := addr.Offset(2); o < 700; o += 2 {
			h.s.cut(o)
		}
		if len(h.s.segments) != maxSegments {
			t.Fatalf("%d segments, want %d", len(h.s.segments), maxSegments)
		}
		for i := range 150 {
			r := h.span()
			if i%2 == 0 { // a narrow one where no more cuts are made
				r.Start = 2*maxSegments + addr.Offset(rng.IntN(150))
				r.End = r.Start + 1 + addr.Offset(rng.IntN(20))
			}
			who := h.holder()
			g, ok := h.s.take(r, who, h.now, h.rest)
			wg, wok := h.w.take(r, who, h.now, h.rest)
			if g.plain() != wg || ok != wok {
				t.Fatalf("seed %d: take in %v: %v %v, want %v %v", n, r, g, ok, wg, wok)
			}
			if err := h.step(); err != nil {
				t.Fatalf("seed %d, step %d: %s: %v", n, i, h.last, err)
			}
			if !slices.ContainsFunc(h.s.segments, func(q segment) bool { return q.live > 0 }) {
				break
			}
		}
	}
}

func FuzzHistory(f *testing.F) {
	for n := range uint64(8) {
		rng := rand.New(rand.NewPCG(n, 2))
		in := make([]byte, 200)
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		next := func(n int) int {
			if len(in) == 0 {
				return 0
			}
			b := int(in[0])
			in = in[1:]
			return b % n
		}
		h := someHistory(next)
		for len(in) > 0 {
			if err := h.step(); err != nil {
				t.Fatalf("%s: %v", h.last, err)
			}
		}
	})
}

// TestHistoriesExhaustive makes every sequence of four calls, out of all
// that tell tiny pools apart, and each of them after a few different starts.
func TestHistoriesExhaustive(t *testing.T) {
	if testing.Short() {
		t.Skip("tries 260,000 histories; not with -short")
	}
	const depth = 4
	who := Holder{Name: "x", Key: KeyOf("x")}
	rest := time.Second
	for size := addr.Offset(1); size <= 2; size++ {
		type call func(s *Space, w *twin, now time.Time) bool
		var calls []call
		whole := addr.Range{End: size}
		ranges := []addr.Range{whole}
		if size > 1 {
			ranges = append(ranges, addr.One(0), addr.One(1))
		}
		for _, r := range ranges {
			calls = append(calls,
				func(s *Space, w *twin, now time.Time) bool {
					g, ok := s.take(r, who, now, rest)
					wg, wok := w.take(r, who, now, rest)
					return g.plain() == wg && ok == wok
				},
				func(s *Space, w *twin, _ time.Time) bool { s.Own(r); w.own(r); return true },
				func(s *Space, w *twin, _ time.Time) bool {
					return (s.Disown(r) != nil) == (len(w.disown(r)) > 0)
				},
				func(s *Space, w *twin, _ time.Time) bool { s.SetAside(r); w.setAside(r, true); return true },
				func(s *Space, w *twin, _ time.Time) bool { s.Restore(r); w.setAside(r, false); return true })
		}
		for o := range size {
			calls = append(calls,
				func(s *Space, w *twin, now time.Time) bool {
					g, out := s.claim(o, who, now)
					wg, wout := w.claim(o, who, now)
					return g.plain() == wg && out == wout
				},
				func(s *Space, w *twin, now time.Time) bool {
					r, ok := s.free(o, now)
					wr, wok := w.free(o, now)
					return r == wr && ok == wok
				})
		}
		total := 1
		for range depth {
			total *= len(calls)
		}
		for n := range total * 2 {
			s, w := New(addr.Count(size)), newTwin(whole, rememberMax)
			if n >= total { // starts with all of it mine, and one address freed
				s.Own(whole)
				w.own(whole)
				s.claim(size-1, who, time.Unix(1, 0))
				w.claim(size-1, who, time.Unix(1, 0))
				s.free(size-1, time.Unix(2, 0))
				w.free(size-1, time.Unix(2, 0))
			}
			for i, left := 0, n%total; i < depth; i, left = i+1, left/len(calls) {
				if !calls[left%len(calls)](s, w, time.Unix(int64(3+i), 0)) {
					t.Fatalf("size %d, history %d: call %d differs from its twin's", size, n, i)
				}
			}
			if err := w.compare(s, time.Unix(3+depth, 0), rest); err != nil {
				t.Fatalf("size %d, history %d: %v", size, n, err)
			}
		}
	}
}
