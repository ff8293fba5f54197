package ipam_test

import (
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Hosts are given up with all that they have, as an operator has said that they are gone for good, and come back: they are
// suspended, and warn the others; then they start over, and have what nobody got in the meantime.
func TestSimLaden(t *testing.T) {
	y := inTurn(t, ladenSchedule, 400, 90)
	if y.has(t, "laden", "given up in use", "warned", "rejoined", "had again", "claimed again"); !testing.Short() { // few schedules have it
		y.has(t, "users removed what two had")
	}
}

func ladenSchedule(seed uint64) ipamtest.Options {
	o := schedule(seed)
	o.Laden, o.Bare = true, seed%4 == 0
	if seed%3 == 0 { // little space changes hands often
		o.Weather = func(w *ipamtest.Weather) { w.Subnets = []netip.Prefix{prefix("10.2.0.0/29"), prefix("10.6.0.0/30")} }
	}
	return o
}
