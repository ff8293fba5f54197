package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
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
			c.peers[starts].cfg.HostBoot = boot
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
		c.peers[starts].cfg.HostBoot = "another"
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
	for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(sleeps)}, &ipam.ForgetRequest{Peer: c.name(sleeps)}} {
		if err := c.ask(first, r).Err; err != nil {
			t.Fatal(err)
		}
	}
	_, _ = c.full(first, cidr), c.full(second, cidr)
	c.dead = nil
	c.step(sleeps, ipam.ClockSet{By: time.Hour})
	if r := c.ask(sleeps, docker(cidr)); r.Err == nil {
		t.Errorf("%v was handed out", r.Address.Address)
	}
	c.heldOnce(cidr)
}
