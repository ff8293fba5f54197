package ipam_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/ipamtest"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// searched is how many schedules a control may take to find its breach.
const searched = 2000

// TestSimWithoutARule takes away one rule at a time and asserts that the
// simulator notices. A rule that could be missing unnoticed would either not
// be needed or not be tested.
func TestSimWithoutARule(t *testing.T) {
	type apply = func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	for _, tc := range []struct {
		name    string
		rule    ipam.Rule
		apply   apply
		weather func(*ipamtest.Weather)
		finds   string
		slow    bool
	}{
		{"a promise is not on disk", ipam.RulePromise, nil, restless, "I3", false},
		{"votes on slots ahead", ipam.RulePrefix, nil, lagging, "I3", true},
		{"a majority of those who can be reached", ipam.RuleElectorate, nil, divided, "I3", false},
		{"anybody uses the lowest ballot", ipam.RuleOwner, nil, divided, "I3", false},
		{"the lowest ballot is used in spite of a promise", ipam.RuleUnused, nil, restless, "I3", false},
		{"a number counts twice", ipam.RuleOnce, twice, restless, "I7", false},
		{"nothing is set aside", ipam.RuleAside, nil, busy, "I1", false},
		{"set aside in memory only", ipam.RuleAsideDisk, nil, restless, "I1", false},
		{"no list is waited for", ipam.RuleList, nil, wiped, "I1", false},
		{"no list of others is waited for", ipam.RuleLists, nil, collapsed, "I1", false},
		{"an open needs no free space", 0, forced(func(a chronicle.Action) bool { _, ok := a.(chronicle.Open); return ok }), claims, "I1", false},
		{"a reservation needs no free space", 0, forced(func(a chronicle.Action) bool { _, ok := a.(chronicle.Reserve); return ok }), nil, "check", false},
		{"a pool is deleted with its ranges", 0, emptied, func(w *ipamtest.Weather) {
			crossing(w)
			w.Subnets, w.Clients = []netip.Prefix{prefix("10.1.0.0/28")}, 2
		}, "I1", false},
		{"a pool is deleted under networks", 0, unused(func(a chronicle.Action) (chronicle.PoolKey, peer.ID) {
			if d, ok := a.(chronicle.DeletePool); ok {
				return d.Pool, peer.None
			}
			return chronicle.PoolKey{}, peer.None
		}), func(w *ipamtest.Weather) { crossing(w); tiny(w); w.Clients = 0 }, "I1", false},
		{"a new database founds a cluster under networks", 0, nil, func(w *ipamtest.Weather) {
			reinstalled(w)
			w.Config.Hesitate = false
		}, "I3", false},
		{"a cluster is founded beside one that is seen", ipam.RuleSight, nil, func(w *ipamtest.Weather) {
			refounded(w)
			w.Config.Hesitate = false // by which most of them would be kept from it, too
		}, "I3", false},
		{"an open takes what is excluded", 0, included, func(w *ipamtest.Weather) {
			busy(w)
			strike(w, "reserves", 20)
			w.Storm = time.Second
		}, "I1", false},
		{"an eviction frees the ranges", 0, freed(func(a chronicle.Action) peer.ID {
			if e, ok := a.(chronicle.Evict); ok {
				return e.Peer
			}
			return peer.None
		}), divided, "I1", false},
		{"an inheritance frees the ranges", 0, freed(func(a chronicle.Action) peer.ID {
			if e, ok := a.(chronicle.Inherit); ok {
				return e.Former
			}
			return peer.None
		}), func(w *ipamtest.Weather) { busy(w); wiped(w); w.Storm, w.Pace = 20*time.Second, 300*time.Millisecond }, "I1", false},
		{"a host is forgotten that lives", 0, nil, func(w *ipamtest.Weather) {
			busy(w)
			divided(w)
			w.Rash = true
			w.Storm = time.Second
			w.Config.EvictAfter = 5 * time.Second
			w.Probe = time.Second
			strike(w, "parts", 0)
			strike(w, "oneWay", 0)
			strike(w, "heals", 1)
			strike(w, "forgets", 6)
		}, "I1", true},
		{"an old join is enough", ipam.RuleChallenge, nil, overheard, "S5", false},
		{"who was suspended asks nobody", ipam.RuleAwake, nil, func(w *ipamtest.Weather) {
			away(w)
			w.Config.BootAlone = false
		}, "I1", false},
		{"a release in doubt is believed", ipam.RuleDoubt, nil, late, "I1", false},
		{"one list frees who is starting", ipam.RuleShown, nil, late, "I1", false},
		{"a list tells of networks in the making", ipam.RuleMaking, nil, making, "I1", false},
		{"shared addresses go with one network", 0, lastUser, making, "I1", false},
		{"a host that was given up follows on", ipam.RuleSuspend, nil, laden, "check", false},
		{"a host that was given up warns nobody", ipam.RuleWarn, nil, laden, "I1", false},
		{"a peer that rejoins hands out what is in use there", ipam.RuleShadow, nil, laden, "lost", false},
		{"a peer that rejoins may found a cluster", ipam.RuleMark, nil, func(w *ipamtest.Weather) { laden(w); w.Birth = ipamtest.Alone; w.Config.Hesitate = false }, "I3", false},
		{"a number of an identity is given again", 0, reused, identified, "I9", false},
		{"a label set gets a second number", 0, twoNumbers, identified, "I9", false},
		{"a lock that is held is given again", 0, lockedTwice, takingLocks, "I10", false},
		{"the end of one holder ends the lock of the next", 0, endedLate, takingLocks, "I10", false},
		{"locks outlive their owner", 0, outlived, takingLocks, "I10", false},
		{"messages leave before the disk", 0, nil, func(w *ipamtest.Weather) {
			restless(w)
			busy(w)
			w.Hosts, w.Later, w.Hasty, w.CrashInCommit = 3, 0, true, 1000
		}, "I", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if testing.Short() && tc.slow {
				t.Skip("takes seconds to find")
			}
			t.Parallel()
			began := time.Now()
			other := map[string]int{}
			var y tally // what it took
			weather := func(w *ipamtest.Weather) {
				w.Hosts = max(w.Hosts, 2)
				if tc.weather != nil {
					tc.weather(w)
				}
			}
			for seed := range uint64(searched) {
				r, err := ipamtest.Simulate(ipamtest.Options{Seed: seed, Steps: 3000, Apply: tc.apply, Laden: tc.rule&givenUpRules != 0, Weather: func(w *ipamtest.Weather) {
					weather(w)
					w.Config = ipam.Applying(ipam.Without(w.Config, tc.rule), tc.apply)
				}})
				y.add(t, r)
				b, _ := errors.AsType[*ipamtest.BreachError](err)
				if b == nil {
					continue
				}
				if strings.HasPrefix(b.Rule, tc.finds) {
					t.Logf("schedule %d, %v: %v; %v\n%s", seed, time.Since(began), err, other, y.sum())
					withRules(t, seed, tc.rule&givenUpRules != 0, weather)
					return
				}
				other[b.Rule]++
			}
			t.Errorf("no breach of %s; %v\n%s", tc.finds, other, y.sum())
		})
	}
}

// TestRecoverWithoutARule has a survivor recover a cluster that does not know which number the lost majority gave last. In the
// simulator whoever recovers knows all that was decided, so this schedule is written down.
func TestRecoverWithoutARule(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rule  ipam.Rule
		twice bool
	}{
		{"who recovers leaves out numbers", 0, false},
		{"who recovers leaves out no numbers", ipam.RuleLeap, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newLockstepWith(t, 3, func(c *lockstep) {
				for _, p := range c.peers {
					p.cfg = ipam.Without(p.cfg, tc.rule)
				}
			})
			c.run(time.Minute, c.agreed)
			c.wait(5 * time.Second)
			order := c.order()
			lost, survivor := order[0], order[2]
			c.lose = func(f flight) bool { return f.to == survivor }
			number := func(i int, text string) uint64 {
				t.Helper()
				if r := c.ask(i, &ipam.IdentityRequest{Labels: []string{text}}); r.Err != nil {
					t.Fatal(r.Err)
				}
				return c.peers[i].machine.State().Identities.Number(text)
			}
			fence := func(i int) uint64 {
				t.Helper()
				r := c.ask(i, &ipam.LockRequest{Want: lock.Want{Name: "backup", Holder: "restic", Token: uint64(i) + 1}})
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				return r.Fence
			}
			before := number(lost, "app=web")
			for i := range 5 {
				number(lost, fmt.Sprint("app=", i))
			}
			fenced := fence(lost)
			c.queue = nil
			c.apart()
			c.wait(15 * time.Second)
			if r := c.ask(survivor, &ipam.RecoverRequest{}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if c.peers[survivor].machine.State().Identities.Number("app=web") != 0 {
				t.Fatal("the survivor knows the number")
			}
			c.tick(2*time.Second, survivor)
			if after := number(survivor, "app=db"); (before == after) != tc.twice {
				t.Errorf("one label set has number %d, another gets %d behind the recovery", before, after)
			}
			if after := fence(survivor); (after <= fenced) != tc.twice {
				t.Errorf("a lock was given with fence %d, and is with %d behind the recovery", fenced, after)
			}
		})
	}
}

// TestZoneVotes has a peer name another zone where that would give votes to hosts that are away: it waits (R75). Without the rule
// the cluster decides nothing any more until they are back.
func TestZoneVotes(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule ipam.Rule
		told bool
	}{
		{"a zone waits for the votes", 0, false},
		{"a zone waits for no votes", ipam.RuleZoneVotes, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, order := zoned(t, tc.rule)
			first, moves := order[0], order[4]
			c.inZones(map[int]peer.Zone{moves: "a"})
			for i := range c.peers {
				if c.dead[i] {
					c.step(moves, &ipam.Presence{Peer: c.peers[i].machine.Self()})
				}
			}
			c.wait(30 * time.Second)
			if told := c.zones(first)[moves] == "a"; told != tc.told {
				t.Fatalf("the zone is told: %v", told)
			}
			if r := c.ask(first, creation(netip.MustParsePrefix("10.70.0.0/24"))); (r.Err != nil) != tc.told {
				t.Errorf("a pool is made: %v", r.Err)
			}
			c.dead = nil
			c.heal()
			c.wait(30 * time.Second)
			if got := c.zones(first)[moves]; got != "a" {
				t.Errorf("all are back, and the zone is %q", got)
			}
			if r := c.ask(first, creation(netip.MustParsePrefix("10.71.0.0/24"))); r.Err != nil {
				t.Errorf("all are back, and a pool: %v", r.Err)
			}
		})
	}
}

// TestSimCollapse has clusters lose all databases, and begin again.
func TestSimCollapse(t *testing.T) {
	t.Parallel()
	schedules := uint64(150)
	if testing.Short() {
		schedules /= 10
	}
	var y tally
	for seed := range schedules {
		r, err := ipamtest.Simulate(ipamtest.Options{Seed: seed, Steps: 10_000, Weather: collapsed})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		y.add(t, r)
	}
	t.Log(&y)
	y.has(t, "begun again")
}

// withRules asserts that the schedule, and some before it, break nothing with
// all rules in place.
func withRules(t *testing.T, seed uint64, laden bool, weather func(*ipamtest.Weather)) {
	t.Helper()
	for s := seed; s+10 > seed && s <= seed; s-- {
		_, err := ipamtest.Simulate(ipamtest.Options{Seed: s, Steps: 3000, Laden: laden, Weather: func(w *ipamtest.Weather) {
			weather(w)
			w.Hasty, w.Rash, w.Config.Hesitate = false, false, true
		}})
		if err != nil {
			t.Errorf("schedule %d, with all rules: %v", s, err)
		}
	}
}

// restless has processes end and begin again all the time.
func restless(w *ipamtest.Weather) {
	w.Hosts = max(w.Hosts, 3)
	w.CrashInStep, w.CrashInCommit = 50, 100
	w.Pace = min(w.Pace, 500*time.Millisecond)
}

// lagging has peers miss much of what is decided, and those who know it fail.
func lagging(w *ipamtest.Weather) {
	divided(w)
	w.Hosts, w.Later, w.Loss, w.Slow = 3, 0, 3000, 2000
	w.CrashInStep, w.CrashInCommit = 50, 300
	w.Pace, w.Storm, w.Config.EvictAfter = 100*time.Millisecond, time.Second, 0
}

// divided has the network fall apart all the time.
func divided(w *ipamtest.Weather) {
	w.Hosts = max(w.Hosts, 3)
	w.Storm = 2 * time.Second
	w.Config.EvictAfter = 30 * time.Second
	for i, name := range ipamtest.FaultNames() {
		w.Nemesis[i] = 0
		if slices.Contains([]string{"parts", "isolates", "oneWay", "heals", "evicts", "forgets"}, name) {
			w.Nemesis[i] = 2
		}
	}
}

// busy has much space change hands.
func busy(w *ipamtest.Weather) {
	w.Pace = 100 * time.Millisecond
	w.Slots = 30
	w.Config.Chunk = 1
}

// wiped has databases get lost under containers.
func wiped(w *ipamtest.Weather) {
	w.Hosts = max(w.Hosts, 3)
	w.Storm = 5 * time.Second
	w.Pace = min(w.Pace, 500*time.Millisecond)
	for i, name := range ipamtest.FaultNames() {
		w.Nemesis[i] = 0
		if name == "wipes" {
			w.Nemesis[i] = 2
		}
	}
}

// late has containers ask for few addresses again and again, and their processes end: releases get lost, or come late.
func late(w *ipamtest.Weather) {
	w.Hosts, w.Later, w.Observers, w.Clients, w.Slots = 2, 0, 0, 0, 6 // of two hosts, one that founds nothing, none is founded
	w.Claims, w.Popular, w.Pace = 9000, true, 2*time.Second
	w.Subnets, w.Storm, w.Deaf = []netip.Prefix{prefix("10.2.0.0/29")}, 0, 0
}

// making has networks be made and removed, which takes time.
func making(w *ipamtest.Weather) {
	w.Clients, w.Makes, w.Pace = 0, 60, 500*time.Millisecond
	w.Subnets = []netip.Prefix{prefix("10.2.0.0/29")}
}

// away has hosts be suspended, frozen and off, and others take what they have.
func away(w *ipamtest.Weather) {
	w.Hosts = max(w.Hosts, 3)
	w.Storm, w.Config.EvictAfter = 5*time.Second, 0
	w.Pace = min(w.Pace, 500*time.Millisecond)
	for i := range w.Nemesis {
		w.Nemesis[i] = 0
	}
	strike(w, "sleeps", 2)
}

// overheard has a device send again how peers were admitted that are no more.
func overheard(w *ipamtest.Weather) {
	wiped(w)
	strike(w, "evicts", 2)
	w.Birth, w.Hosts, w.Recorder, w.Storm = ipamtest.Alone, 4, 5*time.Second, 20*time.Second
	w.Pace, w.Slots, w.Latency, w.Loss = 10*time.Second, 2, 5*time.Millisecond, 0 // long rather than busy
}

// givenUpRules are those about hosts that are given up with what they have.
const givenUpRules = ipam.RuleSuspend | ipam.RuleWarn | ipam.RuleShadow | ipam.RuleMark

// laden has hosts be given up with what they have, and others take it.
func laden(w *ipamtest.Weather) {
	away(w)
	busy(w)
	w.Pace, w.Storm, w.Emptied = 2*time.Second, 2*time.Second, 0 // a host is away for minutes
	w.Subnets = []netip.Prefix{prefix("10.2.0.0/29"), prefix("10.1.0.0/28")}
	w.Config.BootAlone = false
}

// identified has hosts that are cut off and healed ask for many label sets, and has these be collected.
func identified(w *ipamtest.Weather) {
	divided(w)
	w.Identities, w.IdentifyEvery, w.Pace = 10_000, 200*time.Millisecond, 20*time.Second
}

// strike has a fault strike so often, in relation to others.
func strike(w *ipamtest.Weather, fault string, weight int) {
	w.Nemesis[slices.Index(ipamtest.FaultNames(), fault)] = weight
}

// tiny has pools of which all may be reserved.
func tiny(w *ipamtest.Weather) {
	w.Subnets = []netip.Prefix{prefix("10.6.0.0/30"), prefix("10.6.0.4/30"), prefix("10.2.0.0/29")}
}

// reinstalled has hosts lose their databases that are told of no other host.
func reinstalled(w *ipamtest.Weather) {
	wiped(w)
	strike(w, "wipes", 0)
	strike(w, "reinstalls", 2)
	w.Birth, w.Pace = ipamtest.Alone, 200*time.Millisecond
}

// refounded has most of those who founded a cluster lose their databases.
func refounded(w *ipamtest.Weather) {
	wiped(w)
	strike(w, "wipes", 0)
	strike(w, "refounds", 2)
	w.Birth, w.Hosts, w.Observers, w.Later, w.Storm = ipamtest.ByList, 3, 0, 4, 20*time.Second
}

// collapsed has clusters lose all databases at once.
func collapsed(w *ipamtest.Weather) {
	wiped(w)
	strike(w, "wipes", 0)
	strike(w, "collapses", 2)
	w.Storm = time.Minute
}

// removed has pools be made and removed all the time, which messages that are
// late let happen at once.
func removed(w *ipamtest.Weather) {
	w.Hosts, w.Slow, w.Loss = 3, 2000, 0
	w.Pace, w.Storm, w.Latency = 100*time.Millisecond, 500*time.Millisecond, 50*time.Millisecond
	for i, name := range ipamtest.FaultNames() {
		w.Nemesis[i] = 0
		if name == "pools" {
			w.Nemesis[i] = 4
		}
	}
}

// crossing has pools be removed while others begin to use them, of which neither hears for a while.
func crossing(w *ipamtest.Weather) {
	removed(w)
	w.Slots, w.Config.Deal = 1, chronicle.DealNone
	w.Pace, w.Storm, w.Latency = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
}

// claims has many hosts want the same addresses.
func claims(w *ipamtest.Weather) {
	w.Claims, w.Popular, w.Pace = 6000, true, 100*time.Millisecond
	w.Config.Deal = chronicle.DealNone
}

// twice applies commands whose number was applied before.
func twice(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	batch = slices.Clone(batch)
	known := map[peer.ID]uint64{}
	for i, c := range batch {
		last := max(known[c.Author], s.Number(c.Author))
		batch[i].Number = max(c.Number, last+1)
		known[c.Author] = batch[i].Number
	}
	return s.Apply(batch)
}

// forced gives a refused command the effect that it asked for: its range
// becomes the author's, or reserved.
func forced(which func(chronicle.Action) bool) func(*chronicle.State, []chronicle.Command) []chronicle.Outcome {
	return func(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
		out := s.Apply(batch)
		for i := range out {
			o := &out[i]
			if o.Refused == "" || !which(o.Command.Action) || s.Member(o.Command.Author) == nil {
				continue
			}
			switch a := o.Command.Action.(type) {
			case chronicle.Open:
				p := s.Pool(a.Pool)
				if p == nil || a.Range.Size() != 1 || p.ReservationAt(a.Range.Start) != nil {
					continue
				}
				p.Ring.Assign(a.Range, o.Command.Author, ring.Version(s.Slot))
				o.Refused, o.Range = "", a.Range
			case chronicle.Reserve:
				p := s.Pool(a.Pool)
				if p == nil || a.Range.Size() != 1 || p.ReservationAt(a.Range.Start) != nil {
					continue
				}
				i := slices.IndexFunc(p.Reserved, func(r chronicle.Reservation) bool { return r.Range.Start > a.Range.Start })
				if i < 0 {
					i = len(p.Reserved)
				}
				p.Reserved = slices.Insert(p.Reserved, i, a.Reservation)
				p.Touch()
				p.Ring.Assign(a.Range, ring.Reserved, ring.Version(s.Slot))
				o.Refused = ""
			}
		}
		return out
	}
}

// emptied takes a pool that is to be deleted from whoever owns a part of it or
// uses it.
func emptied(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	for _, c := range batch {
		if d, ok := c.Action.(chronicle.DeletePool); ok && c.Number > s.Number(c.Author) {
			if p := s.Pool(d.Pool); p != nil {
				p.Users = nil
				p.Touch()
				for _, t := range slices.Collect(p.Ring.Tokens()) {
					if t.Owner != ring.Reserved {
						_, r := p.Ring.At(t.Start)
						p.Ring.Assign(r, ring.Free, ring.Version(s.Slot+1))
					}
				}
			}
		}
	}
	return s.Apply(batch)
}

// reused has the next number follow the highest that a set has, and not the highest that one ever had.
func reused(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	out := s.Apply(batch)
	if ids := &s.Identities; ids.Last > 0 {
		ids.Last = identity.First
		for _, set := range ids.Sets {
			ids.Last = max(ids.Last, set.Number)
		}
	}
	return out
}

// twoNumbers gives a label set another number where somebody asks that has not heard of the first.
func twoNumbers(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	out := s.Apply(batch)
	for i := range out {
		a, ok := out[i].Command.Action.(chronicle.Identify)
		if ids := &s.Identities; ok && ids.Number(a.Labels) != 0 && out[i].Refused != "" {
			ids.Last++
			ids.Sets = append(ids.Sets, identity.Set{Number: ids.Last, Text: a.Labels})
			ids.Touch()
			out[i].Refused, out[i].Identity = "", ids.Last
		}
	}
	return out
}

// lockedTwice gives a lock to who asks for it, whoever has it.
func lockedTwice(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	for _, c := range batch {
		a, ok := c.Action.(chronicle.Lock)
		if l := s.Locks.Of(a.Name); ok && l != nil && c.Number > s.Number(c.Author) {
			s.Locks.End(l.Name, l.Fence, peer.None)
		}
	}
	return s.Apply(batch)
}

// endedLate has who ends a lock end that of whoever has it by now.
func endedLate(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	late := slices.Clone(batch)
	for i, c := range batch {
		switch a := c.Action.(type) {
		case chronicle.Unlock:
			if l := s.Locks.Of(a.Name); l != nil {
				late[i].Action = chronicle.Expire{Name: a.Name, Fence: l.Fence}
			}
		case chronicle.Expire:
			if l := s.Locks.Of(a.Name); l != nil {
				late[i].Action = chronicle.Expire{Name: a.Name, Fence: l.Fence}
			}
		}
	}
	out := s.Apply(late)
	for i := range out {
		out[i].Command = batch[i]
	}
	return out
}

// outlived leaves its locks to a peer that leaves the roster.
func outlived(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	had := s.Locks.Locks
	out := s.Apply(batch)
	for _, l := range had {
		if s.Member(l.Owner) == nil && s.Locks.Of(l.Name) == nil {
			s.Locks.Locks = append(slices.Clone(s.Locks.Locks), l)
			slices.SortFunc(s.Locks.Locks, func(a, b lock.Lock) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return out
}

// lastUser takes who uses a pool no more for its last user.
func lastUser(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	for _, c := range batch {
		if u, ok := c.Action.(chronicle.Unuse); ok && c.Number > s.Number(c.Author) {
			if p := s.Pool(u.Pool); p != nil && p.UsedBy(c.Author) {
				p.Users = []peer.ID{c.Author}
				p.Touch()
			}
		}
	}
	return s.Apply(batch)
}

// unused takes note of nobody's networks on a pool that a command is about, or
// of those of the peer that it is about on any pool.
func unused(which func(chronicle.Action) (chronicle.PoolKey, peer.ID)) func(*chronicle.State, []chronicle.Command) []chronicle.Outcome {
	return func(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
		for _, c := range batch {
			key, id := which(c.Action)
			for _, p := range s.Pools {
				if p.Key == key && c.Number > s.Number(c.Author) {
					p.Users = nil
				}
				p.Users = slices.DeleteFunc(p.Users, func(u peer.ID) bool { return u == id })
				p.Touch()
			}
		}
		return s.Apply(batch)
	}
}

// included frees what is excluded in the range of which somebody opens a part.
func included(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	for _, c := range batch {
		o, ok := c.Action.(chronicle.Open)
		p := s.Pool(o.Pool)
		if !ok || p == nil {
			continue
		}
		p.Reserved = slices.DeleteFunc(p.Reserved, func(r chronicle.Reservation) bool {
			goes := r.Kind == chronicle.KindExcluded && !r.Range.Intersect(o.Range).Empty()
			if goes {
				p.Ring.Assign(r.Range, ring.Free, ring.Version(s.Slot+1))
			}
			return goes
		})
		p.Touch()
	}
	return s.Apply(batch)
}

// freed frees the ranges of the evicted peer that a command is about, or that
// it evicts.
func freed(whose func(chronicle.Action) peer.ID) func(*chronicle.State, []chronicle.Command) []chronicle.Outcome {
	return func(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
		var lost []peer.ID
		for _, c := range batch {
			if id := whose(c.Action); id != peer.None && c.Number > s.Number(c.Author) {
				lost = append(lost, id)
			}
		}
		free := func() {
			for _, p := range s.Pools {
				for _, t := range slices.Collect(p.Ring.Tokens()) {
					if slices.Contains(lost, t.Owner) && s.Member(t.Owner) == nil {
						_, r := p.Ring.At(t.Start)
						p.Ring.Assign(r, ring.Free, ring.Version(s.Slot))
					}
				}
			}
		}
		free()
		out := s.Apply(batch)
		free()
		return out
	}
}
