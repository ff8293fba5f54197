package ipam_test

import (
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Hosts are given up with all that they have, as an operator has said that they are gone for good, and come back: what nobody
// got meanwhile they have again, and nobody else gets it from then on.
func TestSimLaden(t *testing.T) {
	inTurn(t, ladenSchedule, 400, 90).has(t, "laden", "strays", "strays that are had again", "strays removed")
}

func ladenSchedule(seed uint64) ipamtest.Options {
	o := schedule(seed)
	o.Laden, o.Bare = true, seed%4 == 0
	if seed%3 == 0 { // little space changes hands often
		o.Weather = func(w *ipamtest.Weather) { w.Subnets = []netip.Prefix{prefix("10.2.0.0/29"), prefix("10.6.0.0/30")} }
	}
	return o
}
