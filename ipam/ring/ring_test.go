package ring_test

import (
	"fmt"
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

func TestAssignAgainstTwin(t *testing.T) {
	owners := []peer.ID{ring.Free, ring.Reserved, {1}, {2}, {3}}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "size")
		r := ring.New(addr.Count(size), 1)
		w := &twin{owner: make([]peer.ID, size)}
		for v := range ring.Version(rapid.IntRange(0, 60).Draw(t, "changes")) {
			start := rapid.IntRange(0, size-1).Draw(t, "start")
			end := rapid.IntRange(start, size).Draw(t, "end")
			owner := rapid.SampledFrom(owners).Draw(t, "owner")
			want := addr.Range{Start: addr.Offset(start), End: addr.Offset(end)}
			r.Assign(want, owner, v+2)
			w.assign(want, owner)
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
			if !want.Empty() {
				if tok, _ := r.At(want.Start); tok.Version != v+2 {
					t.Fatalf("token at %d has version %d, written by slot %d", want.Start, tok.Version, v+2)
				}
			}
			for o := range w.owner {
				if tok, at := r.At(addr.Offset(o)); tok.Owner != w.owner[o] || !at.Contains(addr.Offset(o)) {
					t.Fatalf("after %v to %v: owner at %d is %v in %v, want %v", want, owner.Short(), o, tok.Owner.Short(), at, w.owner[o].Short())
				}
			}
		}
		for _, owner := range owners {
			var n addr.Count
			for part := range r.OwnedBy(owner) {
				n += part.Size()
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

func BenchmarkAssign(b *testing.B) {
	const tokens = 10_000
	r := ring.New(tokens*16, 1)
	for i := range tokens / 2 {
		r.Assign(addr.Range{Start: addr.Offset(i * 32), End: addr.Offset(i*32 + 16)}, peer.ID{byte(i%200 + 1)}, 2)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		at := addr.Offset(i % (tokens / 2) * 32)
		r.Assign(addr.Range{Start: at + 16, End: at + 24}, peer.ID{250}, 3)
		r.Assign(addr.Range{Start: at + 16, End: at + 24}, ring.Free, 4)
		i += 7919
	}
}

func BenchmarkAt(b *testing.B) {
	r := ring.New(10_000*16, 1)
	for i := range 5_000 {
		r.Assign(addr.Range{Start: addr.Offset(i * 32), End: addr.Offset(i*32 + 16)}, peer.ID{byte(i%200 + 1)}, 2)
	}
	o := addr.Offset(0)
	for b.Loop() {
		r.At(o % (10_000 * 16))
		o += 7919
	}
}
