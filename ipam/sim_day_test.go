package ipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// everyday is the life of a cluster that is used: hosts come, leave, die, are
// made anew and lose their databases, something every minute, and
// containers start and stop all the time on networks that all hosts share.
func everyday(w *ipamtest.Weather) {
	w.Shape = ipamtest.Shape{
		Hosts: 6, Later: 6, Config: w.Config, Deadline: w.Deadline,
		Subnets: []netip.Prefix{prefix("10.64.0.0/22"), prefix("10.65.0.0/23"), prefix("10.66.0.0/25"), prefix("fd00:64::/119")},
	}
	w.Links = ipamtest.Links{
		Loss: 100, Repeat: 100, Slow: 50, Astray: true, Latency: 5 * time.Millisecond, Probe: 3 * time.Second, Suspect: 20,
	}
	w.Processes = ipamtest.Processes{Group: 2000, Drift: 1}
	w.Deaf, w.Lag = 50, time.Second
	w.Slots, w.Clients, w.Claims, w.Pace, w.Chooses, w.Popular = 150, 10, 500, 5*time.Second, true, false
	w.Storm, w.ZoneEvery, w.Doom = time.Minute, 0, false
	clear(w.Nemesis[:])
	w.Config.Rest, w.Config.Deal, w.Config.Chunk, w.Config.EvictAfter = 5*time.Minute, chronicle.DealHalf, 0, 15*time.Minute
	for fault, weight := range map[string]int{
		"parts": 1, "isolates": 2, "oneWay": 1, "heals": 8, "crashes": 4, "reboots": 4, "freezes": 2, "wipes": 3, "destroys": 2, "replaces": 4,
		"evicts": 1, "forgets": 3, "drains": 1, "undrains": 3, "leaves": 1, "quits": 1, "pools": 1, "replays": 2, "reinstalls": 1, "ghosts": 2,
	} {
		strike(w, fault, weight)
	}
}

// TestSimDay runs a cluster for an hour of simulated time, for a whole day with
// -soak. In the end it is known of every address of every pool what it is.
func TestSimDay(t *testing.T) {
	day, seed := time.Hour, *seedFlag
	if seed == 0 {
		seed = 1 // an hour of it has something of everything
	}
	switch {
	case *soakFlag > 0:
		day = 24 * time.Hour
	case testing.Short():
		day = 20 * time.Minute
	}
	r, err := ipamtest.Simulate(ipamtest.Options{Seed: seed, Time: day, Weather: everyday})
	if err != nil {
		t.Fatalf("seed %d, after %d steps and %v: %v", seed, r.Steps, r.Took, err)
	}
	t.Logf("seed %d: %d steps, %d slots, %v simulated; %v", seed, r.Steps, r.Slots, r.Took.Round(time.Minute), r.Counts)
	if len(r.Accounts) == 0 {
		t.Error("there is no pool")
	}
	for _, a := range r.Accounts {
		t.Logf("%+v", a)
	}
	for _, what := range []string{"container", "client", "crash", "wipes", "destroys", "Admit", "Evict", "Inherit", "Give", "Open", "Close"} {
		if hours := int(day / time.Hour); r.Counts[what] < hours {
			t.Errorf("%s: %d times in %v", what, r.Counts[what], day)
		}
	}
	if !slices.ContainsFunc(r.Accounts, func(a ipamtest.Account) bool { return a.Held > 100 }) {
		t.Error("hardly anything is held in the end")
	}
}
