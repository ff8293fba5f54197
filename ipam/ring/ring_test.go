package ring_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// twin is the slow, obvious ring: an owner for each address.
type twin struct {
	owner []peer.ID
}

func (w *twin) assign(r addr.Range, owner peer.ID) {
	for o := r.Start; o < r.End; o++ {
		w.owner[o] = owner
	}
}

// TestAssignAgainstTwin compares a ring with its twin in a window, at either end
// of the pool or amidst it, that is divided as finely as can be or not at all.
func TestAssignAgainstTwin(t *testing.T) {
	owners := []peer.ID{ring.Free, ring.Reserved, {1}, {2}, {3}}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 7, 40, 500}).Draw(t, "size")
		base := rapid.SampledFrom([]addr.Offset{0, 1 << 20, math.MaxUint64 - 500}).Draw(t, "base")
		behind := rapid.SampledFrom([]addr.Offset{0, min(1<<40, math.MaxUint64-base-addr.Offset(size))}).Draw(t, "behind")
		r := ring.New(addr.Count(base)+addr.Count(size)+addr.Count(behind), 1)
		w := &twin{owner: make([]peer.ID, size)}
		assign := func(start, end int, owner peer.ID, v ring.Version) {
			r.Assign(addr.Range{Start: base + addr.Offset(start), End: base + addr.Offset(end)}, owner, v)
			w.assign(addr.Range{Start: addr.Offset(start), End: addr.Offset(end)}, owner)
		}
		if rapid.Bool().Draw(t, "divided") {
			for o := range size {
				assign(o, o+1, owners[o%len(owners)], 1)
			}
		}
		for v := range ring.Version(rapid.IntRange(0, 60).Draw(t, "changes")) {
			start := rapid.IntRange(0, size-1).Draw(t, "start")
			end := rapid.IntRange(start, size).Draw(t, "end")
			if rapid.Bool().Draw(t, "small") {
				end = min(end, start+rapid.IntRange(0, 3).Draw(t, "length"))
			}
			owner := rapid.SampledFrom(owners).Draw(t, "owner")
			if v > 5 {
				r.Sum() // from here on it is kept
			}
			assign(start, end, owner, v+2)
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
			if start < end {
				if tok, _ := r.At(base + addr.Offset(start)); tok.Version != v+2 {
					t.Fatalf("token at %d has version %d, written by slot %d", start, tok.Version, v+2)
				}
			}
			for o := range w.owner {
				at := base + addr.Offset(o)
				if tok, part := r.At(at); tok.Owner != w.owner[o] || !part.Contains(at) {
					t.Fatalf("after %d to %d to %v: owner at %d is %v in %v, want %v", start, end, owner.Short(), o, tok.Owner.Short(), part, w.owner[o].Short())
				}
			}
		}
		if again, err := ring.FromTokens(r.Size(), slices.Collect(r.Tokens())); err != nil || again.Len() != r.Len() || again.Sum() != r.Sum() {
			t.Fatalf("its tokens make another ring than that of %d: %v", r.Len(), err)
		}
		whole := addr.Range{Start: base, End: base + addr.Offset(size)}
		for _, owner := range owners {
			var n addr.Count
			for part := range r.OwnedBy(owner) {
				n += part.Intersect(whole).Size()
				if !r.Owns(owner, part) {
					t.Fatalf("%v yields %v and does not own it", owner.Short(), part)
				}
			}
			var want addr.Count
			for _, o := range w.owner {
				if o == owner {
					want++
				}
			}
			if n != want {
				t.Fatalf("owned by %v: %d addresses, want %d", owner.Short(), n, want)
			}
		}
	})
}

func TestWithinClips(t *testing.T) {
	r := ring.New(100, 1)
	r.Assign(addr.Range{Start: 20, End: 60}, peer.ID{1}, 2)
	r.Assign(addr.Range{Start: 40, End: 50}, peer.ID{2}, 3)
	var got []string
	for part, tok := range r.Within(addr.Range{Start: 30, End: 55}) {
		got = append(got, fmt.Sprintf("%v %d", part, tok.Version))
	}
	if want := "[[30,40) 2 [40,50) 3 [50,55) 2]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for range r.Within(addr.Range{Start: 100, End: 200}) {
		t.Error("yields something beyond the ring")
	}
}

func TestFromTokensRefuses(t *testing.T) {
	a, b := peer.ID{1}, peer.ID{2}
	for name, tokens := range map[string][]ring.Token{
		"none":            {},
		"no first":        {{Start: 1, Owner: a}},
		"out of order":    {{Owner: a}, {Start: 5, Owner: b}, {Start: 5, Owner: a}},
		"beyond the end":  {{Owner: a}, {Start: 10, Owner: b}},
		"same neighbours": {{Owner: a}, {Start: 5, Owner: a}},
	} {
		if _, err := ring.FromTokens(10, tokens); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ring.FromTokens(10, []ring.Token{{Owner: a}, {Start: 9, Owner: b}}); err != nil {
		t.Error(err)
	}
}

func ExampleRing_Assign() {
	r := ring.New(256, 1)
	r.Assign(addr.Range{Start: 0, End: 128}, peer.ID{0xa}, 2)
	r.Assign(addr.Range{Start: 64, End: 96}, peer.ID{0xb}, 3) // a gives b the middle
	r.Assign(addr.Range{Start: 64, End: 96}, peer.ID{0xa}, 4) // and gets it back
	for part, tok := range r.All() {
		fmt.Println(part, tok.Owner.Short(), "slot", tok.Version)
	}
	// Output:
	// [0,128) 0a000000 slot 4
	// [128,256) 00000000 slot 1
}

// divided returns a ring of so many tokens.
func divided(tokens int) *ring.Ring {
	r := ring.New(addr.Count(tokens*16), 1)
	for i := range tokens / 2 {
		r.Assign(addr.Range{Start: addr.Offset(i * 32), End: addr.Offset(i*32 + 16)}, peer.ID{byte(i%200 + 1)}, 2)
	}
	return r
}

// BenchmarkAssign asks what a change costs, and how that grows with the ring.
// Accepted (P12): 1.2 times at ten times the tokens.
func BenchmarkAssign(b *testing.B) {
	for _, tokens := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			r := divided(tokens)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				at := addr.Offset(i % (tokens / 2) * 32)
				r.Assign(addr.Range{Start: at + 16, End: at + 24}, peer.ID{250}, 3)
				r.Assign(addr.Range{Start: at + 16, End: at + 24}, ring.Free, 4)
				i += 7919
			}
		})
	}
}

// BenchmarkAt asks the same of a look-up.
func BenchmarkAt(b *testing.B) {
	for _, tokens := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			r := divided(tokens)
			rng := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				r.At(addr.Offset(rng.Uint64N(uint64(tokens * 16))))
			}
		})
	}
}
