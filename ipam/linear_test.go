package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// claimed is the model of one address: its state is who has it, or nobody. strict
// says that who is refused because somebody has the address was refused while
// somebody had it; without, whoever is refused is believed, since the space of
// an evicted host is refused, too.
func claimed(strict bool) porcupine.Model {
	const nobody = ""
	step := func(state, input, _ any) []any {
		holder, op := state.(string), input.(ipamtest.Operation)
		stays := []any{holder}
		switch {
		case !op.Frees && op.Answer == ipamtest.InUse:
			if strict && holder == nobody {
				return nil
			}
			return stays
		case !op.Frees && op.Answer == ipamtest.Done:
			if holder != nobody {
				return nil
			}
			return []any{op.Who}
		case !op.Frees:
			if holder != nobody {
				return stays
			}
			return []any{nobody, op.Who}
		case op.Sure && holder != op.Who:
			return nil
		case holder != op.Who:
			return stays
		case op.Answer == ipamtest.Done:
			return []any{nobody}
		}
		return []any{nobody, holder}
	}
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			at := map[netip.Addr]int{}
			for _, op := range history {
				a := op.Input.(ipamtest.Operation).Address
				i, known := at[a]
				if !known {
					i = len(parts)
					at[a], parts = i, append(parts, nil)
				}
				parts[i] = append(parts[i], op)
			}
			return parts
		},
		Init: func() []any { return []any{nobody} },
		Step: step,
	}
	return m.ToModel()
}

// locking has lockers on all hosts want the same four addresses, in weather
// with partitions.
func locking(w *ipamtest.Weather) {
	w.Hosts = max(w.Hosts, 3)
	w.Lockers, w.Clients, w.Popular, w.Pace = 3, 0, true, 200*time.Millisecond
	w.Chooses = false // a network that joins the pool by its name has all of it
	w.Roams = 0       // an address that a host gets on its LAN would be one of the four
	w.Subnets = []netip.Prefix{prefix("10.1.0.0/26")}
	w.Storm = min(max(w.Storm, 2*time.Second), 5*time.Second)
	w.CrashInStep, w.CrashInCommit = max(w.CrashInStep, 15), max(w.CrashInCommit, 15)
	for i, name := range ipamtest.FaultNames() {
		if name == "parts" || name == "isolates" || name == "oneWay" || name == "heals" {
			w.Nemesis[i] = 3
		}
	}
}

// faithful leaves out of the weather what has a refusal say that an address is
// in use which may be: evictions.
func faithful(w *ipamtest.Weather) {
	w.Config.EvictAfter = 0
	for i, name := range ipamtest.FaultNames() {
		switch name {
		case "evicts", "wipes", "destroys", "replaces", "leaves", "reinstalls", "refounds", "quits", "recovers":
			w.Nemesis[i] = 0
		}
	}
}

// history runs a schedule with lockers and returns what they were told.
func history(o ipamtest.Options) (ops []porcupine.Operation, r ipamtest.Result, err error) {
	clients := map[string]int{}
	o.Observe = func(op ipamtest.Operation) {
		id, known := clients[op.Who]
		if !known {
			id = len(clients)
			clients[op.Who] = id
		}
		ops = append(ops, porcupine.Operation{ClientId: id, Input: op, Call: int64(op.Call), Return: int64(op.Return)})
	}
	r, err = ipamtest.Simulate(o)
	return ops, r, err
}

// TestLinearizable compares what clients on all hosts are told, when they claim
// and free the same addresses at once under partitions and crashes, with a lock
// for each address: there is an order of all that was granted, refused and
// freed in which each happened while it was asked for (Herlihy and Wing, 1990).
func TestLinearizable(t *testing.T) {
	schedules := uint64(16)
	if testing.Short() {
		schedules = 4
	}
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprintf("strict=%t", strict), func(t *testing.T) {
			t.Parallel()
			told := map[ipamtest.Operation]int{} // by what they were about alone
			for seed := range schedules {
				ops, r, err := history(ipamtest.Options{Seed: seed, Steps: 12_000, Weather: func(w *ipamtest.Weather) {
					if locking(w); strict {
						faithful(w)
					}
				}})
				if err != nil {
					t.Fatalf("seed %d, after %d steps: %v", seed, r.Steps, err)
				}
				for _, op := range ops {
					op := op.Input.(ipamtest.Operation)
					told[ipamtest.Operation{Frees: op.Frees, Answer: op.Answer}]++
				}
				if got := porcupine.CheckOperationsTimeout(claimed(strict), ops, time.Minute); got != porcupine.Ok {
					t.Fatalf("seed %d: %d operations: %v", seed, len(ops), got)
				}
			}
			total := 0
			for _, kind := range []ipamtest.Operation{{}, {Answer: ipamtest.InUse}, {Answer: ipamtest.Unknown}, {Frees: true}, {Frees: true, Answer: ipamtest.Unknown}} {
				if total += told[kind]; told[kind] == 0 && !testing.Short() {
					t.Errorf("%+v never happened", kind)
				}
			}
			t.Logf("%d histories, %d operations: %d granted, %d refused, %d not known; %d freed, %d not known", schedules, total, told[ipamtest.Operation{}],
				told[ipamtest.Operation{Answer: ipamtest.InUse}], told[ipamtest.Operation{Answer: ipamtest.Unknown}], told[ipamtest.Operation{Frees: true}], told[ipamtest.Operation{Frees: true, Answer: ipamtest.Unknown}])
		})
	}
}

// TestLinearizableWithoutARule takes rules away, and asserts that the answers
// alone show it.
func TestLinearizableWithoutARule(t *testing.T) {
	anyOpen := forced(func(a chronicle.Action) bool { _, ok := a.(chronicle.Open); return ok })
	for _, tc := range []struct {
		name  string
		rule  ipam.Rule
		apply func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	}{
		{"nothing is set aside", ipam.RuleAside, nil},
		{"an open needs no free space", 0, anyOpen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(searched) {
				ops, r, err := history(ipamtest.Options{Seed: seed, Steps: 5000, Apply: tc.apply, Unwatched: true, Weather: func(w *ipamtest.Weather) {
					locking(w)
					faithful(w)
					w.Config.Deal, w.Config.Chunk = chronicle.DealNone, 1
					w.Config = ipam.Applying(ipam.Without(w.Config, tc.rule), tc.apply)
				}})
				if err != nil {
					t.Fatalf("seed %d, after %d steps: %v", seed, r.Steps, err)
				}
				if porcupine.CheckOperationsTimeout(claimed(false), ops, time.Minute) == porcupine.Illegal {
					t.Logf("schedule %d: %d operations, and no order of them fits a lock", seed, len(ops))
					return
				}
			}
			t.Errorf("no breach in %d histories", searched)
		})
	}
}
