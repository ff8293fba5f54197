package ipam_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Hosts that start while others are lost who knew more.

// A voter starts anew, and hears of a decision from the one who made it, who is lost
// before anybody else was told. It goes on with those who are left, whose majority
// needs its vote: nothing could ever be decided else.
func TestStartedWhileTheOnlyOneWhoKnowsIsLost(t *testing.T) {
	for _, boot := range []string{"same", "another"} {
		t.Run(boot, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			c.wait(time.Minute)
			order := c.order()
			knows, stays, starts := order[0], order[1], order[2]
			was := c.peers[knows].machine.State().Slot
			c.silence(starts)
			welcomed := false
			c.lose = func(f flight) bool {
				if f.from != knows || f.frame.Slot == was {
					return false
				}
				_, welcome := f.frame.Body.(wire.Welcome)
				welcomed = welcomed || welcome && f.to == starts
				return !welcome || f.to != starts
			}
			c.call(knows, &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")})
			c.run(time.Second, func() bool { return c.peers[knows].machine.State().Slot > was })
			c.dead = nil
			c.peers[starts].cfg.HostBoot.ID = boot
			c.start(starts)
			c.run(time.Second, func() bool { return welcomed })
			c.wait(2 * time.Millisecond)
			c.die(knows)
			c.wait(time.Minute)
			if got := c.peers[starts].machine.Status(c.now).State; got != ipam.Ready {
				t.Errorf("a minute later it is %v", got)
			}
			for _, i := range []int{stays, starts} {
				if r := c.ask(i, docker(prefix("10.50.0.0/24"))); r.Err != nil {
					t.Errorf("%s: %v", c.name(i), r.Err)
				}
				if r := c.ask(i, &ipam.PoolCreation{CIDR: prefix([]string{"10.61.0.0/24", "10.62.0.0/24", "10.63.0.0/24"}[i])}); r.Err != nil {
					t.Errorf("%s: %v", c.name(i), r.Err)
				}
			}
			c.lose = func(flight) bool { return false }
			c.heal()
			c.run(time.Minute, c.agreed)
			c.oneCluster()
		})
	}
}

// A host is forgotten while it is off, by the only one who knows of all that, since the other one
// that accepted the eviction was away when it was decided. The host starts, is told by that one that
// there is something that it does not know, and then cannot reach it any more, nor perhaps the
// other. It hands out nothing of what is another's by now, as RINGLET_BOOT_ALONE=false says.
func TestForgottenAsOnlyOneKnowsWhoIsCutOff(t *testing.T) {
	for _, both := range []bool{false, true} {
		c := newLockstep(t, 3)
		c.found()
		c.wait(time.Minute)
		cidr := prefix("10.50.0.0/24")
		order := c.order()
		knows, stays, starts := order[0], order[1], order[2]
		was := c.peers[knows].machine.State().Slot
		c.die(starts)
		c.lose = func(f flight) bool { return f.from == knows && f.to == stays && f.frame.Slot > was }
		if err := c.ask(knows, &ipam.EvictRequest{Peer: c.name(starts)}).Err; err != nil {
			t.Fatal(err)
		}
		c.die(starts, stays)
		if err := c.ask(knows, &ipam.ForgetRequest{Peer: c.name(starts)}).Err; err != nil {
			t.Fatal(err)
		}
		wantErr(t, c.full(knows, cidr), ipam.ErrUnreachable)

		c.dead = map[int]bool{stays: both}
		welcomed := false
		c.lose = func(f flight) bool {
			_, welcome := f.frame.Body.(wire.Welcome)
			welcomed = welcomed || welcome && f.from == knows && f.to == starts
			return f.from == knows && (!welcome || f.to != starts) || f.from == stays && f.to == knows
		}
		c.peers[starts].cfg.HostBoot.ID = "another"
		c.start(starts)
		c.run(time.Second, func() bool { return welcomed })
		c.wait(2 * time.Millisecond)
		c.lose = func(f flight) bool { return f.from == knows || f.to == knows }
		for i, lost := range map[int][]int{stays: {knows}, starts: {knows, stays}} {
			for _, j := range lost {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self(), Alive: j == stays && !both})
			}
		}
		c.wait(2 * time.Minute)
		if got := c.peers[starts].machine.Status(c.now).State; got != ipam.Checking {
			t.Errorf("both cut off: %t: two minutes later it is %v", both, got)
		}
		if err := c.full(starts, cidr); err == nil {
			t.Errorf("both cut off: %t: it hands out addresses", both)
		}
		c.heldOnce(cidr)
	}
}

// A host is suspended, and forgotten meanwhile. As it goes on it asks the others before it hands out what it
// had, also where a container has waited for it to.
func TestForgottenWhileSuspended(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(time.Minute)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, second, sleeps := order[0], order[1], order[2]
	c.die(sleeps)
	c.giveUp(first, sleeps)
	_, _ = c.full(first, cidr), c.full(second, cidr)
	c.dead = nil
	c.step(sleeps, ipam.ClockSet{By: time.Hour})
	if r := c.ask(sleeps, docker(cidr)); r.Err == nil {
		t.Errorf("%v was handed out", r.Address.Address)
	}
	c.heldOnce(cidr)
}

// A host boots, hears from one of the three others, and is cut off for an hour, in which it is evicted and forgotten
// also by that one. Then it reaches one alone that lags. What the first one said is of another time.
func TestCutOffDuringItsBootCheck(t *testing.T) {
	c := newLockstep(t, 4)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, says, lags, boots := order[0], order[1], order[2], order[3]
	for _, i := range order {
		if r := c.ask(i, creation(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(time.Minute)
	c.die(lags)
	c.lose = without(first)
	c.peers[boots].cfg.HostBoot.ID = "another" // and RINGLET_BOOT_ALONE=false
	c.start(boots)
	c.part(boots, first, lags)
	c.wait(2 * time.Second)
	if got := c.status(boots).State; got != ipam.Checking {
		t.Fatalf("it is %v", got)
	}
	c.lose = without(boots, lags)
	c.part(boots, first, says, lags)
	c.wait(time.Hour)
	c.giveUp(first, boots)
	_ = c.full(first, cidr)
	c.dead = nil
	c.peers[lags].cfg.HostBoot.ID = "another"
	c.start(lags)
	c.part(lags, first, says)
	c.lose = between(boots, lags)
	c.step(boots, &ipam.Presence{Peer: c.peers[lags].machine.Self(), Alive: true})
	c.wait(time.Minute)
	if got := c.status(boots).State; got != ipam.Checking {
		t.Errorf("it is %v", got)
	}
	_ = c.full(boots, cidr)
	c.heldOnce(cidr)
}

// A host is suspended as the answers to its boot check are on their way, and forgotten meanwhile. They lie in its
// sockets as it goes on: they are of another time.
func TestLateAnswersAfterSleep(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(time.Minute)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, second, sleeps := order[0], order[1], order[2]
	var late []flight
	c.lose = func(f flight) bool {
		_, welcome := f.frame.Body.(wire.Welcome)
		if welcome && f.to == sleeps {
			late = append(late, f)
		}
		return welcome && f.to == sleeps
	}
	c.start(sleeps)
	c.wait(100 * time.Millisecond)
	if len(late) == 0 {
		t.Fatal("nobody answers")
	}
	c.lose = without(sleeps)
	c.dead = map[int]bool{sleeps: true}
	c.part(sleeps, first, second)
	run := func(i int, r ipam.Request) error {
		call := c.call(i, r)
		c.run(time.Minute, func() bool { c.peers[sleeps].wake = time.Time{}; _, ok := c.peers[i].replies[call]; return ok })
		return c.peers[i].replies[call].Err
	}
	end := c.now.Add(15 * time.Second)
	c.run(time.Minute, func() bool { c.peers[sleeps].wake = time.Time{}; return c.now.After(end) })
	for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(sleeps)}, &ipam.ForgetRequest{Peer: c.name(sleeps)}} {
		if err := run(first, r); err != nil {
			t.Fatal(err)
		}
	}
	for run(first, docker(cidr)) == nil {
	}
	c.dead = nil
	c.step(sleeps, ipam.ClockSet{By: time.Hour})
	for _, f := range late {
		c.step(sleeps, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
	}
	if got := c.status(sleeps).State; got != ipam.Checking {
		t.Errorf("it is %v", got)
	}
	for range 100 {
		if r := c.ask(sleeps, docker(cidr)); r.Err != nil {
			break
		}
	}
	c.heldOnce(cidr)
}

// The process of a host is frozen, as by a debugger, the freezer of its cgroup or a machine that is out of memory:
// both of its clocks go on. It is forgotten meanwhile.
func TestForgottenWhileFrozen(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(time.Minute)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, second, frozen := order[0], order[1], order[2]
	c.dead = map[int]bool{frozen: true}
	c.part(first, frozen)
	c.part(second, frozen)
	thaw := func(done func() bool) {
		c.run(time.Hour, func() bool { c.peers[frozen].wake = time.Time{}; return done() })
	}
	end := c.now.Add(20 * time.Minute)
	thaw(func() bool { return c.now.After(end) })
	run := func(i int, r ipam.Request) error {
		call := c.call(i, r)
		thaw(func() bool { _, ok := c.peers[i].replies[call]; return ok })
		return c.peers[i].replies[call].Err
	}
	for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(frozen)}, &ipam.ForgetRequest{Peer: c.name(frozen)}} {
		if err := run(first, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{first, second} {
		for run(i, docker(cidr)) == nil {
		}
	}
	c.dead = nil
	if r := c.ask(frozen, docker(cidr)); r.Err == nil {
		t.Errorf("%v was handed out", r.Address.Address)
	}
	c.heldOnce(cidr)
}

// A host was suspended, and forgotten meanwhile, and its network is not there yet. Somebody starts its plugin anew, as
// it hands out nothing. It hands out no more then.
func TestRestartedAfterSleep(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(time.Minute)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, second, sleeps := order[0], order[1], order[2]
	c.die(sleeps)
	c.giveUp(first, sleeps)
	_, _ = c.full(first, cidr), c.full(second, cidr)
	c.dead = nil
	c.lose = without(sleeps)
	c.step(sleeps, ipam.ClockSet{By: time.Hour})
	c.wait(2 * time.Second)
	c.start(sleeps)
	c.part(sleeps, first, second)
	c.wait(4 * time.Second)
	if r := c.ask(sleeps, docker(cidr)); r.Err == nil {
		t.Errorf("%v was handed out", r.Address.Address)
	}
	c.heldOnce(cidr)
	c.lose = func(flight) bool { return false }
	c.heal()
	c.wait(10 * time.Second)
	if got := c.status(sleeps).State; got != ipam.Suspended {
		t.Errorf("it is %v", got)
	}
}

// The plugin was off on a host that was suspended, and forgotten meanwhile. It starts in the same boot of the host,
// whose network is not there yet, and hands out nothing, as if it had run all the time; nor does the process after it.
// The clock may have been set before, by a time server, or back while the plugin was off.
func TestStartedAfterSleep(t *testing.T) {
	for _, set := range []struct{ before, meanwhile time.Duration }{{0, 0}, {time.Second, 0}, {time.Minute, 0}, {0, -time.Hour}} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg.HostBoot.At = c.now.Add(-time.Hour)
			}
		})
		c.found()
		c.wait(time.Minute)
		cidr := prefix("10.50.0.0/24")
		order := c.order()
		first, second, slept := order[0], order[1], order[2]
		host := &c.peers[slept].cfg
		if set.before > 0 {
			c.step(slept, ipam.ClockSet{By: set.before})
			host.HostBoot.At = host.HostBoot.At.Add(set.before)
			c.wait(time.Minute)
		}
		c.die(slept)
		c.giveUp(first, slept)
		_, _ = c.full(first, cidr), c.full(second, cidr)
		c.dead = nil
		c.lose = without(slept)
		host.HostBoot.At = host.HostBoot.At.Add(time.Minute + set.meanwhile)
		for range 2 {
			c.start(slept)
			c.part(slept, first, second)
			c.wait(4 * time.Second)
			if r := c.ask(slept, docker(cidr)); r.Err == nil {
				t.Errorf("%+v: %v was handed out", set, r.Address.Address)
			}
		}
		c.heldOnce(cidr)
		c.lose = func(flight) bool { return false }
		c.heal()
		c.wait(10 * time.Second)
		if got := c.status(slept).State; got != ipam.Suspended {
			t.Errorf("%+v: it is %v", set, got)
		}
	}
}

// A host was off, and forgotten meanwhile, and its cluster was upgraded. It boots with the older release, which cannot
// follow what was decided. Then it is upgraded, and its plugin starts anew without its network. It does not know by
// that start of the host that its database is the latest.
func TestUpgradedAfterBoot(t *testing.T) {
	for _, alone := range []bool{false, true} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg = ipam.Remembering(p.cfg, 3) // it lags, and gets a snapshot
			}
		})
		c.found()
		c.wait(time.Minute)
		cidr := prefix("10.50.0.0/24")
		order := c.order()
		first, second, boots := order[0], order[1], order[2]
		c.die(boots)
		c.giveUp(first, boots)
		for _, i := range []int{first, second} {
			c.upgrade(i, chronicle.Spoken+1)
			c.wait(5 * time.Second)
		}
		_, _ = c.full(first, cidr), c.full(second, cidr)
		if got := c.peers[first].machine.State().Level; got != chronicle.Spoken+1 {
			t.Fatalf("level %d", got)
		}
		c.dead = nil
		c.peers[boots].cfg.HostBoot.ID, c.peers[boots].cfg.BootAlone = "another", alone
		c.start(boots)
		c.wait(30 * time.Second)
		if got := c.status(boots).State; got != ipam.Outdated {
			t.Fatalf("it is %v", got)
		}
		c.lose = without(boots)
		c.upgrade(boots, chronicle.Spoken+1)
		c.part(boots, first, second)
		c.wait(4 * time.Second)
		c.call(boots, docker(cidr))
		c.heldOnce(cidr)
		c.lose = func(flight) bool { return false }
		c.heal()
		c.wait(10 * time.Second)
		c.heldOnce(cidr)
		if got := c.status(boots).State; got != ipam.Suspended {
			t.Errorf("it is %v", got)
		}
	}
}

// A host that started alone is no longer said to have, once a majority has spoken to it: also where none of them answers
// a question that it asks, since it asks none any more.
func TestMeetsMajorityAfterBoot(t *testing.T) {
	c, _ := lab(t)
	c.die(1, 2)
	c.peers[0].cfg.HostBoot.ID, c.peers[0].cfg.BootAlone = "another", true
	c.start(0)
	c.wait(time.Minute)
	alone := func() bool {
		return slices.ContainsFunc(c.status(0).Problems, func(p ipam.Problem) bool { return p.Code == "booted-alone" })
	}
	if !alone() {
		t.Fatal("it has asked nobody, and does not say so")
	}
	c.step(0, &ipam.Presence{Peer: c.peers[1].machine.Self(), Alive: true})
	if !alone() {
		t.Error("no other host has said a word")
	}
	c.say(0, 1, wire.Beat{}, func(*wire.Header) {})
	if alone() {
		t.Error("a majority has spoken to it")
	}
}
