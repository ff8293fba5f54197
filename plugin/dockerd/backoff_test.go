package dockerd

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shortest := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "shortest"))
		longest := shortest + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		b := backoff{shortest: shortest, longest: longest, rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
		for range 2 { // the second time after a reset
			step := shortest
			for range 50 {
				if got := b.next(); got < step/2 || got > step {
					t.Fatalf("got pause %v, want one within %v and %v", got, step/2, step)
				}
				step = min(2*step, longest)
			}
			b.reset()
		}
	})
}
