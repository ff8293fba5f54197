package ring_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// A sum depends on each of the four words of each token, and on where they
// stand.
func TestSumTellsRingsApart(t *testing.T) {
	a, b, c := peer.ID{1}, peer.ID{2}, peer.ID{15: 1}
	sums := map[uint64]string{}
	for _, tokens := range [][]ring.Token{
		{{}},
		{{Version: 1}},
		{{Owner: a}},
		{{Owner: c}},
		{{Owner: a}, {Start: 1, Owner: b}},
		{{Owner: b}, {Start: 1, Owner: a}},
		{{Owner: a}, {Start: 2, Owner: b}},
		{{Owner: a, Version: 2}, {Start: 2, Owner: b}},
		{{Owner: a}, {Start: 2, Owner: b, Version: 2}},
		{{Owner: a}, {Start: 2, Owner: b}, {Start: 4, Owner: a}},
	} {
		name := fmt.Sprint(tokens)
		r, err := ring.FromTokens(10, tokens)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := sums[r.Sum()]; ok {
			t.Errorf("%s and %s have one sum", name, other)
		}
		sums[r.Sum()] = name
	}
}

// A change reads no tokens for the sum but those that it touches: all others
// may be other ones.
func TestSumReadsWhatChanges(t *testing.T) {
	const tokens, length = 10_000, 16
	want := divided(tokens)
	r := divided(tokens)
	if want.Sum() != r.Sum() {
		t.Fatal("equal rings have different sums")
	}
	const at = addr.Offset(tokens/2*length + 4)
	if n := r.Spoil(func(t ring.Token) bool { return t.Start+3*length > at && t.Start < at+3*length }); n < tokens-8 {
		t.Fatalf("only %d of %d tokens are other ones", n, r.Len())
	}
	for i, owner := range []peer.ID{{250}, {251}, ring.Free} {
		for _, r := range []*ring.Ring{want, r} {
			r.Assign(addr.Range{Start: at, End: at + length}, owner, ring.Version(i+3))
		}
		if r.Sum() != want.Sum() {
			t.Error("the sum depends on tokens that did not change")
		}
	}
	if err := r.Check(); err == nil {
		t.Error("a sum of other tokens is not found")
	}
	if err := want.Check(); err != nil {
		t.Error(err)
	}
	again, err := ring.FromTokens(want.Size(), slices.Collect(want.Tokens()))
	if err != nil || again.Sum() != want.Sum() {
		t.Errorf("a ring that was made at once has another sum: %v", err)
	}
}
