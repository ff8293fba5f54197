package ipam_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

var (
	stepsFlag  = flag.Int("steps", 20_000_000, "how many steps TestSim takes, over all its schedules")
	fromFlag   = flag.Uint64("from", 1, "first seed of TestSim")
	soakFlag   = flag.Duration("soak", 0, "run TestSimSoak for this long, with seeds that no run had before")
	linesFlag  = flag.Int("lines", 60, "how many lines of a failing schedule's trace are shown")
	reduceFlag = flag.Bool("reduce", false, "look for the shortest schedule that fails as the one of -seed does")
)

// schedule returns the options of a seed's schedule.
func schedule(seed uint64) ipamtest.Options {
	rnd := rand.New(rand.NewPCG(seed, 0x57e9))
	o := ipamtest.Options{Seed: seed, Steps: []int{500, 2000, 5000, 20_000}[rnd.IntN(4)]}
	if few := rnd.Uint64N(30); few > 0 && rnd.IntN(2) == 0 {
		// Peers that lag get a snapshot. Who has forgotten how its cluster began does
		// not give way to another one: all remember the two slots of a new one.
		o.Weather = func(w *ipamtest.Weather) { w.Config = ipam.Remembering(w.Config, max(few, 3)) }
	}
	return o
}

// tally is what many schedules come to.
type tally struct {
	mu        sync.Mutex
	schedules int
	steps     int
	slots     uint64
	took      time.Duration
	counts    map[string]int
}

// TestSimAtRest runs schedules twice, the second time with peers that ask in each
// step all that may be due: nothing is missed by those that rest.
func TestSimAtRest(t *testing.T) {
	for seed := range uint64(40) {
		o := schedule(seed)
		want, err := ipamtest.Simulate(o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		change := o.Weather
		o.Weather = func(w *ipamtest.Weather) {
			if change != nil {
				change(w)
			}
			w.Config = ipam.Restless(w.Config)
		}
		got, err := ipamtest.Simulate(o)
		if err != nil {
			t.Fatalf("seed %d, restless: %v", seed, err)
		}
		if got.Hash != want.Hash || got.Steps != want.Steps || got.Slots != want.Slots || got.Took != want.Took {
			t.Errorf("seed %d: restless peers sent something else: %d steps and %d slots in %v, not %d and %d in %v",
				seed, got.Steps, got.Slots, got.Took, want.Steps, want.Slots, want.Took)
		}
	}
}

// sayEvery is how many steps lie between two lines of a long run that say how
// far it is.
const sayEvery = 10_000_000

func (y *tally) add(t *testing.T, r ipamtest.Result) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.schedules++
	if y.steps += r.Steps; y.steps/sayEvery > (y.steps-r.Steps)/sayEvery {
		t.Logf("%d schedules, %d steps", y.schedules, y.steps)
	}
	y.slots += r.Slots
	y.took += r.Took
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	for k, n := range r.Counts {
		y.counts[k] += n
	}
}

// String says first what happened, then what machines noted, then what they refused, each class on a line. The last line is
// for a script that sums up several runs.
func (y *tally) String() string {
	var b, notes, refusals strings.Builder
	fmt.Fprintf(&b, "%d schedules, %d steps, %d slots, %v simulated;", y.schedules, y.steps, y.slots, y.took.Round(time.Hour))
	for _, k := range slices.Sorted(maps.Keys(y.counts)) {
		if note, ok := strings.CutPrefix(k, "note "); ok {
			fmt.Fprintf(&notes, " %s %d", note, y.counts[k])
		} else if class, ok := strings.CutPrefix(k, "refused "); ok {
			fmt.Fprintf(&refusals, "\n%9d %s", y.counts[k], class)
		} else {
			fmt.Fprintf(&b, " %s %d", k, y.counts[k])
		}
	}
	fmt.Fprintf(&b, "\nnotes:%s\nrefused:%s\n%s", &notes, &refusals, y.sum())
	return b.String()
}

// sum is a line whose figures add up over runs:
//
//	go test ./ipam -v ... | awk '/sum:/ { steps += $(NF-2); schedules += $(NF-4) } END { print schedules, steps }'
func (y *tally) sum() string {
	return fmt.Sprintf("sum: schedules %d steps %d slots %d", y.schedules, y.steps, y.slots)
}

// simulate runs schedules from the seed on, on all cores, until more says no
// or one fails.
func simulate(t *testing.T, of func(seed uint64) ipamtest.Options, from uint64, more func(y *tally, seed uint64) bool) *tally {
	t.Helper()
	y := &tally{}
	var next atomic.Uint64
	var failed atomic.Bool
	next.Store(from)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !failed.Load() {
				seed := next.Add(1) - 1
				if !more(y, seed) {
					return
				}
				o := of(seed)
				r, err := ipamtest.Simulate(o)
				y.add(t, r)
				if err != nil {
					failed.Store(true)
					t.Error(explain(t, o, r, err))
				}
			}
		})
	}
	wg.Wait()
	t.Log(y)
	return y
}

// explain says how a schedule failed, and how to see it again.
func explain(t *testing.T, o ipamtest.Options, r ipamtest.Result, err error) string {
	t.Helper()
	var lines []string
	o.Trace = func(line string) {
		if lines = append(lines, line); len(lines) > 2**linesFlag+1000 {
			lines = slices.Delete(lines, 0, len(lines)-*linesFlag)
		}
	}
	_, _ = ipamtest.Simulate(o)
	lines = lines[max(0, len(lines)-*linesFlag):]
	return fmt.Sprintf("seed %d, after %d steps: %v\n%s\nto see it again: go test ./ipam -run '%s$' -seed %d -lines 1000", o.Seed, r.Steps, err, strings.Join(lines, "\n"), strings.TrimSuffix(t.Name(), "Soak"), o.Seed)
}

// inTurn runs so many schedules, fewer in short, from -from on; with -soak others for that long, and with -seed that one alone, of
// which it returns nothing.
func inTurn(t *testing.T, of func(seed uint64) ipamtest.Options, seeds, short uint64) *tally {
	t.Helper()
	switch {
	case *seedFlag != 0:
		again(t, of(*seedFlag))
		return nil
	case *soakFlag != 0:
		end := time.Now().Add(*soakFlag)
		simulate(t, of, rand.Uint64(), func(*tally, uint64) bool { return time.Now().Before(end) })
		return nil
	case testing.Short():
		seeds = short
	}
	return simulate(t, of, *fromFlag, func(_ *tally, seed uint64) bool { return seed < *fromFlag+seeds })
}

// has fails the test if something never happened in its schedules.
func (y *tally) has(t *testing.T, events ...string) {
	t.Helper()
	for _, what := range events {
		if y != nil && y.counts[what] == 0 {
			t.Errorf("nothing was %q", what)
		}
	}
}

// again runs the schedule of -seed alone.
func again(t *testing.T, o ipamtest.Options) {
	t.Helper()
	r, err := ipamtest.Simulate(o)
	t.Logf("%+v", r)
	if err != nil {
		t.Error(explain(t, o, r, err))
	}
}

// TestSim runs clusters through bad weather, and checks after each step what
// must never break, and at the end that everything has come right again. See
// package ipamtest.
func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		if *reduceFlag {
			reduce(t, *seedFlag)
			return
		}
		again(t, schedule(*seedFlag))
		return
	}
	budget := *stepsFlag
	if testing.Short() {
		budget /= 10
	}
	simulate(t, schedule, *fromFlag, func(y *tally, _ uint64) bool {
		y.mu.Lock()
		defer y.mu.Unlock()
		return y.steps < budget
	})
}

// TestSimSoak runs schedules that no run had before, for as long as -soak
// says.
func TestSimSoak(t *testing.T) {
	if *soakFlag == 0 {
		t.Skip("runs with -soak alone, a duration")
	}
	from := rand.Uint64()
	t.Logf("seeds from %d", from)
	end := time.Now().Add(*soakFlag)
	simulate(t, schedule, from, func(*tally, uint64) bool { return time.Now().Before(end) })
}

// TestSimReplays asserts that a seed is all that a schedule depends on.
func TestSimReplays(t *testing.T) {
	for seed := range uint64(10) {
		o := schedule(seed + 1)
		o.Steps = 2000
		first, err1 := ipamtest.Simulate(o)
		again, err2 := ipamtest.Simulate(o)
		if first.Steps != again.Steps || first.Hash != again.Hash || first.Took != again.Took || (err1 == nil) != (err2 == nil) {
			t.Errorf("seed %d: %d steps, hash %x, took %v; and then %d, %x, %v", o.Seed, first.Steps, first.Hash, first.Took, again.Steps, again.Hash, again.Took)
		}
	}
}

// calmer are the ways to make weather milder, or a cluster smaller.
var calmer = map[string]func(w *ipamtest.Weather){
	"two hosts":            func(w *ipamtest.Weather) { w.Hosts = min(w.Hosts, 2) },
	"three hosts":          func(w *ipamtest.Weather) { w.Hosts = min(w.Hosts, 3) },
	"nobody later":         func(w *ipamtest.Weather) { w.Later = 0 },
	"founded alone":        func(w *ipamtest.Weather) { w.Birth = ipamtest.Alone },
	"no observers":         func(w *ipamtest.Weather) { w.Observers = 0 },
	"one subnet":           func(w *ipamtest.Weather) { w.Subnets = w.Subnets[:1] },
	"two subnets":          func(w *ipamtest.Weather) { w.Subnets = w.Subnets[:min(2, len(w.Subnets))] },
	"named subnets":        func(w *ipamtest.Weather) { w.Chooses = false },
	"few containers":       func(w *ipamtest.Weather) { w.Slots = min(w.Slots, 3) },
	"no clients":           func(w *ipamtest.Weather) { w.Clients = 0 },
	"no claims":            func(w *ipamtest.Weather) { w.Claims = 0 },
	"no loss":              func(w *ipamtest.Weather) { w.Loss = 0 },
	"no repeats":           func(w *ipamtest.Weather) { w.Repeat = 0 },
	"nothing slow":         func(w *ipamtest.Weather) { w.Slow = 0 },
	"no crash in a step":   func(w *ipamtest.Weather) { w.CrashInStep = 0 },
	"no crash in a commit": func(w *ipamtest.Weather) { w.CrashInCommit = 0 },
	"no groups":            func(w *ipamtest.Weather) { w.Group = 0 },
	"no suspicion":         func(w *ipamtest.Weather) { w.Suspect = 0 },
	"true clocks":          func(w *ipamtest.Weather) { w.Drift = 0 },
	"no late answers":      func(w *ipamtest.Weather) { w.Deaf = 0 },
	"shown at once":        func(w *ipamtest.Weather) { w.Lag = 0 },
	"no evictions by time": func(w *ipamtest.Weather) { w.Config.EvictAfter = 0 },
	"no rest":              func(w *ipamtest.Weather) { w.Config.Rest = -1 },
	"slow acts":            func(w *ipamtest.Weather) { w.Pace = max(w.Pace, 3*time.Second) },
}

// reduce looks for milder weather in which a schedule breaks the same rule,
// and for the shortest such schedule.
func reduce(t *testing.T, seed uint64) {
	t.Helper()
	calmer := maps.Clone(calmer)
	for i, name := range ipamtest.FaultNames() {
		calmer["no fault "+name] = func(w *ipamtest.Weather) { w.Nemesis[i] = 0 }
	}
	o := schedule(seed)
	r, err := ipamtest.Simulate(o)
	breach, _ := errors.AsType[*ipamtest.BreachError](err)
	if breach == nil {
		t.Fatalf("seed %d does not fail", seed)
	}
	w, steps := r.Weather, 2*r.Steps
	find := func(w ipamtest.Weather, tries uint64) (best ipamtest.Options, found bool) {
		for s := range tries {
			o := ipamtest.Options{Seed: seed + s, Steps: steps, Weather: func(v *ipamtest.Weather) { *v = w }}
			r, err := ipamtest.Simulate(o)
			if b, _ := errors.AsType[*ipamtest.BreachError](err); b != nil && b.Rule == breach.Rule && (!found || r.Steps < best.Steps) {
				o.Steps, best, found = r.Steps, o, true
				best.Steps = r.Steps
				if tries < 100 {
					return best, true
				}
			}
		}
		return best, found
	}
	for range 2 {
		for _, name := range slices.Sorted(maps.Keys(calmer)) {
			milder := w
			calmer[name](&milder)
			if fmt.Sprint(milder) == fmt.Sprint(w) {
				continue
			}
			if _, found := find(milder, 20); found {
				w = milder
				t.Log(name)
			}
		}
	}
	best, found := find(w, 400)
	if !found {
		t.Fatal("nothing milder fails")
	}
	best.Trace = func(line string) { fmt.Println(line) }
	r, err = ipamtest.Simulate(best)
	t.Errorf("seed %d, %d steps: %v\n%+v", best.Seed, r.Steps, err, w)
}
