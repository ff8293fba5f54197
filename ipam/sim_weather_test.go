package ipam_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Networks come and go as fast as containers, many of them like one that has just gone, while plugins are away and engines start.
func TestSimNetworks(t *testing.T) {
	inTurn(t, networksSchedule, 300, 50)
}

func networksSchedule(seed uint64) ipamtest.Options {
	return quickly(seed, func(w *ipamtest.Weather, rnd *rand.Rand) {
		w.Makes = 30 + rnd.IntN(50)
		w.Slots = 1 + rnd.IntN(3)
		w.CrashInStep, w.CrashInCommit = rnd.IntN(30), rnd.IntN(100)
	})
}

// Few kinds of faults happen, and those often: what two of them do to each other is met sooner than among all.
func TestSimFew(t *testing.T) {
	inTurn(t, fewSchedule, 300, 50)
}

func fewSchedule(seed uint64) ipamtest.Options {
	return quickly(seed, func(w *ipamtest.Weather, rnd *rand.Rand) {
		for i := range w.Nemesis {
			if rnd.IntN(6) > 0 {
				w.Nemesis[i] = 0
			}
		}
		if w.Storm > 0 {
			w.Storm = min(w.Storm, 4*time.Second)
		}
		if rnd.IntN(2) == 0 {
			w.Makes = 10 + rnd.IntN(40)
		}
		if rnd.IntN(2) == 0 {
			w.Claims, w.Popular = 6000, true
		}
		w.Slots = 1 + rnd.IntN(4)
	})
}

// Hosts are in zones, which are lost as a whole and come back, while hosts drain, some of them beside others, and think better of it.
func TestSimZones(t *testing.T) {
	inTurn(t, zonesSchedule, 300, 50).has(t, "zone without power", "zone cut off", "drains", "bequeathed", "dealt around")
}

func zonesSchedule(seed uint64) ipamtest.Options {
	o := schedule(seed)
	first := o.Weather
	o.Weather = func(w *ipamtest.Weather) {
		if first != nil {
			first(w)
		}
		rnd := rand.New(rand.NewPCG(seed, 0x3eb))
		w.Hosts, w.Zones, w.ZoneEvery = max(w.Hosts, 3+rnd.IntN(5)), 2+rnd.IntN(3), time.Duration(10+rnd.IntN(120))*time.Second
		if w.Birth == ipamtest.Apart {
			w.Birth = ipamtest.Alone
		}
		if w.Storm == 0 || w.Storm > 10*time.Second {
			w.Storm = 10 * time.Second
		}
		strike(w, "drains", 6)
		strike(w, "undrains", 3)
		strike(w, "pools", 3)
	}
	return o
}

// quickly returns a schedule of few subnets and quick engines, in weather that is changed.
func quickly(seed uint64, change func(w *ipamtest.Weather, rnd *rand.Rand)) ipamtest.Options {
	o := schedule(seed)
	first := o.Weather
	o.Weather = func(w *ipamtest.Weather) {
		if first != nil {
			first(w)
		}
		rnd := rand.New(rand.NewPCG(seed, 0x3ea))
		w.Subnets = w.Subnets[:1+rnd.IntN(min(2, len(w.Subnets)))]
		w.Pace = min(w.Pace, 500*time.Millisecond)
		change(w, rnd)
	}
	return o
}
