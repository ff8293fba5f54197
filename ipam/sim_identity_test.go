package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// TestSimIdentities has hosts that are cut off and healed at random ask for the numbers of 10,000 label sets, and collect
// them: no number has two sets, no set has two numbers once all is healed, and no number is given twice (I9).
func TestSimIdentities(t *testing.T) {
	t.Parallel()
	schedules := uint64(100)
	if testing.Short() {
		schedules /= 20
	}
	var y tally
	for seed := range schedules {
		r, err := ipamtest.Simulate(ipamtest.Options{Seed: seed, Steps: 10_000, Weather: func(w *ipamtest.Weather) {
			if identified(w); seed%4 == 0 {
				w.Config = ipam.Remembering(w.Config, 30) // who lags gets a snapshot
			}
			if seed%3 == 0 {
				w.CrashInCommit, w.IdentifyEvery = 50, 20*time.Millisecond
			}
		}})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		y.add(t, r)
	}
	t.Log(&y)
	y.has(t, "identities", "identities alive", "Identify", "Collect", "Identify refused", "parts", "isolates", "heals")
}
