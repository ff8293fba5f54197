package ipam_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

var (
	hashesFlag = flag.String("hashes", "", "file that TestSimHashes writes, or, where it exists, compares with")
	seedsFlag  = flag.Uint64("seeds", 2000, "how many seeds TestSimHashes and TestSimAnswers run of TestSim's schedules; a fifth as many of each other kind")
)

// kinds are the kinds of schedules, with how many seeds of them are run for each that is of TestSim.
var kinds = []struct {
	name  string
	of    func(seed uint64) ipamtest.Options
	share uint64
}{
	{"sim", schedule, 1},
	{"bare", bareSchedule, 5},
	{"laden", ladenSchedule, 5},
	{"networks", networksSchedule, 5},
	{"few", fewSchedule, 5},
	{"strained", strainedSchedule, 5},
	{"zones", zonesSchedule, 5},
}

// ran is one schedule of a kind, and what came of it.
type ran struct {
	kind string
	ipamtest.Options
	ipamtest.Result
	answers []ipamtest.Response // where they are asked for
	err     error
}

// each runs -seeds schedules of all kinds, on all cores, and asks for their answers or not. It tells of them in no order, never of
// two at a time.
func each(t *testing.T, answers bool, tell func(r *ran)) {
	t.Helper()
	var todo []ran
	for _, k := range kinds {
		for i := range max(1, *seedsFlag/k.share) {
			todo = append(todo, ran{kind: k.name, Options: k.of(*fromFlag + i)})
		}
	}
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	y := &tally{}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(todo) {
					return
				}
				r := &todo[i]
				if answers {
					r.Respond = func(a ipamtest.Response) { r.answers = append(r.answers, a) }
				}
				r.Result, r.err = ipamtest.Simulate(r.Options)
				y.add(t, r.Result)
				mu.Lock()
				tell(r)
				mu.Unlock()
				todo[i] = ran{}
			}
		})
	}
	wg.Wait()
	t.Log(y)
}

// TestSimHashes writes what thousands of schedules come to into the file of -hashes, or, where that exists, names the schedules
// that come to something else. A change that only moves code leaves all as they were:
//
//	go test ./ipam -run 'TestSimHashes$' -hashes FILE    # before the change, and again behind it
//
// A seed that differs is seen with the test of its kind: go test ./ipam -run 'TestSimBare$' -seed N -v.
func TestSimHashes(t *testing.T) {
	if *hashesFlag == "" {
		t.Skip("runs with -hashes alone, a file")
	}
	lines := map[string]string{}
	each(t, false, func(r *ran) {
		line := fmt.Sprintf("%016x steps %d slots %d took %v", r.Hash, r.Result.Steps, r.Slots, r.Took)
		if b, _ := errors.AsType[*ipamtest.BreachError](r.err); b != nil {
			line += " breach " + b.Rule
			t.Errorf("%s, seed %d: %v", r.kind, r.Seed, r.err)
		}
		lines[fmt.Sprintf("%s %d", r.kind, r.Seed)] = line
	})
	file, err := os.Open(*hashesFlag)
	if errors.Is(err, fs.ErrNotExist) {
		writeHashes(t, lines)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	known, differ := 0, map[string][]string{}
	for in := bufio.NewScanner(file); in.Scan(); {
		name, want, _ := strings.Cut(in.Text(), ": ")
		got, ok := lines[name]
		if !ok {
			continue
		}
		known++
		if kind, seed, _ := strings.Cut(name, " "); got != want {
			if differ[kind] = append(differ[kind], seed); len(differ[kind]) <= 3 {
				t.Logf("%s: %s, and was %s", name, got, want)
			}
		}
	}
	if known < len(lines) {
		t.Errorf("of %d schedules the file has %d", len(lines), known)
	}
	for kind, seeds := range differ {
		t.Errorf("%s: %d seeds differ: %s", kind, len(seeds), strings.Join(seeds[:min(len(seeds), 50)], " "))
	}
}

func writeHashes(t *testing.T, lines map[string]string) {
	t.Helper()
	var text []string
	for name, line := range lines {
		text = append(text, name+": "+line+"\n")
	}
	slices.Sort(text)
	if err := os.WriteFile(*hashesFlag, []byte(strings.Join(text, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %s", *hashesFlag)
}
