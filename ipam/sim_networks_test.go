package ipam_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Networks come and go as fast as containers, many of them like one that has just gone, while plugins are away and engines start.
func TestSimNetworks(t *testing.T) {
	networks := func(seed uint64) ipamtest.Options {
		o := schedule(seed)
		weather := o.Weather
		o.Weather = func(w *ipamtest.Weather) {
			if weather != nil {
				weather(w)
			}
			rnd := rand.New(rand.NewPCG(seed, 0x7e7))
			w.Makes = 30 + rnd.IntN(50)
			w.Slots = 1 + rnd.IntN(3)
			w.Subnets = w.Subnets[:1+rnd.IntN(min(2, len(w.Subnets)))]
			w.Pace = min(w.Pace, 500*time.Millisecond)
			w.CrashInStep, w.CrashInCommit = rnd.IntN(30), rnd.IntN(100)
		}
		return o
	}
	if *seedFlag != 0 {
		again(t, networks(*seedFlag))
		return
	}
	if *soakFlag != 0 {
		end := time.Now().Add(*soakFlag)
		simulate(t, networks, rand.Uint64(), func(*tally, uint64) bool { return time.Now().Before(end) })
		return
	}
	seeds := uint64(400)
	if testing.Short() {
		seeds = 60
	}
	simulate(t, networks, *fromFlag, func(_ *tally, seed uint64) bool { return seed < *fromFlag+seeds })
}
