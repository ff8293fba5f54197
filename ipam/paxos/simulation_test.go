package paxos

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "run only the schedule of this seed, with its trace")
	schedulesFlag = flag.Int("schedules", 0, "run this many schedules per number of voters; 0: the default")
)

// A cluster size of the simulation. Larger ones need more steps to get
// anywhere, and more time.
type size struct{ voters, others, steps, schedules int }

func sizes() []size {
	return []size{
		{1, 2, 60, 10_000},
		{2, 1, 100, 25_000},
		{3, 0, 120, 30_000},
		{3, 2, 150, 20_000},
		{4, 0, 150, 10_000},
		{5, 1, 250, 10_000},
		{7, 2, 450, 5_000},
	}
}

func (s size) String() string { return fmt.Sprintf("voters=%d/others=%d", s.voters, s.others) }

// run runs the schedule of a seed and returns the first breach in it.
func (s size) run(seed uint64, r rules, trace func(string, ...any)) (*cluster, error) {
	c := newCluster(s.voters, s.others, r)
	c.trace = trace
	return c, schedule(c, seeded(seed), s.steps)
}

// explain runs a schedule again and returns what happened in it.
func (s size) explain(seed uint64, r rules) string {
	var b strings.Builder
	_, err := s.run(seed, r, func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	fmt.Fprintf(&b, "result: %v", err)
	return b.String()
}

// TestOneValueIsDecided asserts, whatever is lost, repeated, late or
// restarted, that a slot has one decided value (I3), that somebody proposed
// it, and that a majority gets a decision once the faults stop.
func TestOneValueIsDecided(t *testing.T) {
	for _, s := range sizes() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if *seedFlag != 0 {
				t.Log(s.explain(*seedFlag, rules{}))
			}
			contested, early, unprepared := 0, 0, 0
			schedules := s.schedules
			if testing.Short() {
				schedules /= 10
			}
			if *schedulesFlag > 0 {
				schedules = *schedulesFlag
			}
			for seed := range uint64(schedules) {
				if *seedFlag != 0 {
					seed = *seedFlag
				}
				c, err := s.run(seed, rules{}, nil)
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, s.explain(seed, rules{}))
				}
				if c.early {
					early++
				}
				if c.contested() {
					contested++
				}
				if c.unprepared > 0 {
					unprepared++
				}
				if *seedFlag != 0 {
					return
				}
			}
			// A simulation in which nothing is at stake would prove nothing.
			t.Logf("%d schedules, %d with different values accepted, %d decided before the faults ended, %d that used round 0", schedules, contested, early, unprepared)
			if s.voters > 1 && *schedulesFlag == 0 && (contested < schedules/25 || early < schedules/5 || unprepared < schedules/5) {
				t.Errorf("of %d schedules, only %d had different values accepted, %d decided before the faults ended and %d used round 0", schedules, contested, early, unprepared)
			}
		})
	}
}

// contested reports whether different values were accepted.
func (c *cluster) contested() bool {
	var first []byte
	for _, a := range c.accepted {
		if first == nil {
			first = a.value
		}
		if !slices.Equal(first, a.value) {
			return true
		}
	}
	return false
}
