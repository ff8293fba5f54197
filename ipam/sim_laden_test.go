package ipam_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Hosts are given up with all that they have, as an operator has said that they are gone for good, and come back: what nobody
// got meanwhile they have again, and nobody else gets it from then on.
func TestSimLaden(t *testing.T) {
	laden := func(seed uint64) ipamtest.Options {
		o := schedule(seed)
		o.Laden, o.Bare = true, seed%4 == 0
		if seed%3 == 0 { // little space changes hands often
			o.Weather = func(w *ipamtest.Weather) { w.Subnets = []netip.Prefix{prefix("10.2.0.0/29"), prefix("10.6.0.0/30")} }
		}
		return o
	}
	if *seedFlag != 0 {
		again(t, laden(*seedFlag))
		return
	}
	if *soakFlag != 0 {
		end := time.Now().Add(*soakFlag)
		simulate(t, laden, rand.Uint64(), func(*tally, uint64) bool { return time.Now().Before(end) })
		return
	}
	seeds := uint64(400)
	if testing.Short() {
		seeds = 60
	}
	y := simulate(t, laden, *fromFlag, func(_ *tally, seed uint64) bool { return seed < *fromFlag+seeds })
	for _, what := range []string{"laden", "strays", "strays that are had again", "strays removed"} {
		if y.counts[what] == 0 {
			t.Errorf("nothing was %q", what)
		}
	}
}
