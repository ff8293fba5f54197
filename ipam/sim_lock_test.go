package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// TestSimLocks has programs on hosts that are cut off, healed and crashed at random take locks: none has two holders, and the
// fences of each rise, whatever is lost (I10). In the end each host gets each lock.
func TestSimLocks(t *testing.T) {
	t.Parallel()
	schedules := uint64(100)
	if testing.Short() {
		schedules /= 20
	}
	var y tally
	for seed := range schedules {
		r, err := ipamtest.Simulate(ipamtest.Options{Seed: seed, Steps: 10_000, Weather: func(w *ipamtest.Weather) {
			if takingLocks(w); seed%4 == 0 {
				w.Config = ipam.Remembering(w.Config, 30) // who lags gets a snapshot
			}
			if seed%3 == 0 {
				w.CrashInCommit = 50
			}
		}})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		y.add(t, r)
	}
	t.Log(&y)
	y.has(t, "locks", "locks taken", "Lock", "Unlock", "Expire", "Lock refused", "parts", "isolates", "heals")
}

// takingLocks has hosts that are cut off, healed and crashed take few locks.
func takingLocks(w *ipamtest.Weather) {
	divided(w)
	w.Locks, w.LockEvery, w.Pace = 3, 2*time.Second, 20*time.Second
	strike(w, "crashes", 2)
	strike(w, "freezes", 1)
	strike(w, "reboots", 1)
}
