package ipam_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Engines that give endpoints no MAC, some of them from before 29: what these ask for with an address may
// be a container's, a network's or what they have, and no address is ever two containers'.
func TestSimBare(t *testing.T) {
	bare := func(seed uint64) ipamtest.Options {
		o := schedule(seed)
		o.Bare = true
		return o
	}
	if *seedFlag != 0 {
		again(t, bare(*seedFlag))
		return
	}
	seeds := uint64(400)
	if testing.Short() {
		seeds = 60
	}
	y := simulate(t, bare, *fromFlag, func(_ *tally, seed uint64) bool { return seed < *fromFlag+seeds })
	for _, what := range []string{"bare claim", "replayed address", "started in order", "asked again below containers"} {
		if y.counts[what] == 0 {
			t.Errorf("nothing was %q", what)
		}
	}
}
