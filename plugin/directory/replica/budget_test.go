package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A peer that says more than its share is cut off there, and all together at theirs. What a replica has already stays,
// and a peer that says little is heard beside one that says too much.
func TestMemoryOfOtherPeersIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func() []byte {
		b := make([]byte, 8<<10)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	now := someTime
	loud, quiet, other, r := started(1, 1, now), started(2, 1, now), started(3, 1, now), started(4, 1, now)
	r.maxBytes, r.maxAllBytes = 256<<10, 400<<10
	loud.Set("first", noise())
	quiet.Set("hello", []byte("world"))
	talk(t, loud, r, false, now)
	talk(t, quiet, r, false, now)
	same := func(from *Replica) bool {
		return r.sections[from.own.origin].mark() == from.own.mark()
	}
	if !same(loud) || !same(quiet) {
		t.Fatal("what is within the budget was not taken")
	}

	for i := range 64 {
		loud.Set(fmt.Sprint("key-", i), noise())
	}
	now = now.Add(patience)
	talk(t, loud, r, false, now)
	if same(loud) {
		t.Error("a peer may say more than its share")
	}
	if got := content(r, now); got["first of "+loud.own.origin.Short()+loud.own.origin.String()[28:]] == "" {
		t.Error("what was there before is lost")
	}
	quiet.Set("hello", []byte("again"))
	now = now.Add(patience)
	talk(t, quiet, r, false, now)
	if !same(quiet) {
		t.Error("a peer within its share is not heard beside one beyond it")
	}

	for i := range 24 { // within its own share, and beyond what is left of that of all
		other.Set(fmt.Sprint("key-", i), noise())
	}
	r.maxAllBytes = 100 << 10
	now = now.Add(patience)
	talk(t, other, r, false, now)
	if s := r.sections[other.own.origin]; s != nil && s.mark() == other.own.mark() {
		t.Error("all together may say more than their share")
	}
}
