package ipam_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Engines that give endpoints no MAC, some of them from before 29: what these ask for with an address may
// be a container's, a network's or what they have, and no address is ever two containers'.
func TestSimBare(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 60
	}
	y := &tally{counts: map[string]int{}}
	for seed := *fromFlag; seed < *fromFlag+seeds; seed++ {
		o := schedule(seed)
		o.Bare = true
		r, err := ipamtest.Simulate(o)
		y.add(t, r)
		if err != nil {
			t.Fatalf("seed %d, after %d steps: %v", seed, r.Steps, err)
		}
	}
	t.Log(y)
	for _, what := range []string{"bare claim", "replayed address", "started in order", "asked again below containers"} {
		if y.counts[what] == 0 {
			t.Errorf("nothing was %q", what)
		}
	}
}
