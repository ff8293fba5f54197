package ipam_test

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// What has once been voted is not voted anew, and whose answer lets a host go that boots.

// newThreeAndOne returns three hosts that found a cluster together, and a fourth that has
// another one, of which they have not heard, or waits to join theirs.
func newThreeAndOne(t *testing.T, joins bool) *lockstep {
	t.Helper()
	c := newLockstepWith(t, 4, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.Formation.Size = 3
			if i == 3 {
				p.cfg.Formation, p.cfg.Join = ipam.Formation{}, joins
			}
		}
		c.lose = func(f flight) bool { return f.from == 3 || f.to == 3 }
	})
	c.part(3, 0, 1, 2)
	c.run(time.Minute, func() bool {
		for i := range 3 {
			if s := c.peers[i].machine.State(); len(s.Roster) != 3 || s.Slot != c.peers[0].machine.State().Slot {
				return false
			}
		}
		return true
	})
	return c
}

// part has a peer and some others believe that they cannot reach each other.
func (c *lockstep) part(i int, from ...int) {
	for _, j := range from {
		c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
		c.step(j, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
}

// reboot starts hosts anew, with other boots of the hosts, which do not reach some others.
func (c *lockstep) reboot(hosts []int, away ...int) {
	c.dead = nil
	for _, i := range hosts {
		c.peers[i].cfg.HostBoot.ID = "another"
		c.start(i)
	}
	for _, i := range hosts {
		for _, j := range away {
			c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
		}
	}
}

// creation is docker network create with a subnet.
func creation(cidr netip.Prefix) *ipam.PoolRequest {
	return &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}
}

// without loses all frames from and to some peers.
func without(peers ...int) func(flight) bool {
	return func(f flight) bool {
		for _, i := range peers {
			if f.from == i || f.to == i {
				return true
			}
		}
		return false
	}
}

// Of three hosts one is cut off, and does not hear that the second leaves. That one sees nobody of its
// cluster any more, and hears of another one. It does not forget its own for it: it would meet the first,
// learn from it the slots up to which it was a voter, and vote on those behind them anew.
func TestOneThatLeftVotesOnce(t *testing.T) {
	c := newThreeAndOne(t, false)
	if r := c.ask(3, &ipam.PoolCreation{CIDR: prefix("10.90.0.0/24")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	order := c.order()
	stays, leaves, lags := order[0], order[1], order[2]
	cidr := prefix("10.50.0.0/24")
	for _, i := range []int{stays, lags} {
		if r := c.ask(i, creation(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(time.Minute)
	c.lose = without(3, lags)
	c.part(lags, stays, leaves)
	c.wait(10 * time.Second)
	if err := c.ask(leaves, &ipam.LeaveRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	c.lose = func(flight) bool { return true }
	c.part(leaves, stays)
	c.wait(20 * time.Second)
	c.meets(leaves, 3)
	if c.peers[leaves].machine.State().Slot == 0 {
		t.Error("it has forgotten the cluster that it left")
	}
	c.see(leaves, lags)
	c.wait(10 * time.Second)
	for _, i := range []int{stays, lags} {
		_ = c.full(i, cidr) // as much as it can get
	}
	c.heldOnce(cidr)
}

// A host is off. The first one admits a fourth with the vote of the other, which is cut off before it hears of
// that. With the fourth the first is a majority: it evicts both, and forgets one. These two boot, see each other
// alone, and are a majority of what they know. One of them has accepted the admission: neither hands out.
func TestBootBesideOneThatAcceptedAnAdmission(t *testing.T) {
	for _, stayer := range []bool{true, false} {
		c := newThreeAndOne(t, true)
		order := c.order()
		first, stays, starts := order[0], order[1], order[2]
		accepts, off := starts, stays
		if stayer {
			accepts, off = stays, starts
		}
		cidr := prefix("10.50.0.0/24")
		for _, i := range order[:3] {
			if r := c.ask(i, creation(cidr)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		c.wait(time.Minute)
		was := c.peers[first].machine.State().Slot
		c.die(off, 3)
		c.dead = map[int]bool{off: true}
		c.lose = func(f flight) bool {
			return f.to == accepts && (f.from == 3 || f.from == first && f.frame.Slot > was) || f.from == accepts && f.to == 3
		}
		c.step(3, &ipam.Presence{Peer: c.peers[first].machine.Self(), Alive: true})
		c.step(first, &ipam.Presence{Peer: c.peers[3].machine.Self(), Alive: true})
		c.run(time.Minute, func() bool { return len(c.peers[first].machine.State().Roster) == 4 })
		if got := c.peers[accepts].machine.State().Slot; got != was {
			t.Fatalf("who accepted the admission is at slot %d, want %d", got, was)
		}
		c.die(stays, starts)
		for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(stays)}, &ipam.EvictRequest{Peer: c.name(starts)}, &ipam.ForgetRequest{Peer: c.name(starts)}} {
			if err := c.ask(first, r).Err; err != nil {
				t.Fatal(err)
			}
		}
		_ = c.full(first, cidr) // also with what was forgotten

		c.lose = func(f flight) bool { return (f.from == first || f.from == 3) != (f.to == first || f.to == 3) }
		c.reboot([]int{stays, starts}, first, 3)
		c.wait(time.Minute)
		for _, i := range []int{stays, starts} {
			if got := c.status(i).State; got != ipam.Checking {
				t.Errorf("%s is %v", c.name(i), got)
			}
			wantErr(t, c.full(i, cidr), ipam.ErrNotReady)
		}
		c.heldOnce(cidr)
	}
}

// All hosts lose their power as one is being admitted: two of three have accepted that, and neither knows
// whether it was decided. They boot without the third, and without the new one: they decide it, and go on.
func TestBootWithAnAdmissionUnderWay(t *testing.T) {
	for _, comesBack := range []bool{false, true} {
		c := newThreeAndOne(t, true)
		order := c.order()
		first, second, gone := order[0], order[1], order[2]
		cidr := prefix("10.50.0.0/24")
		for _, i := range order[:3] {
			if r := c.ask(i, creation(cidr)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		c.wait(time.Minute)
		was := c.peers[first].machine.State().Slot
		c.die(gone, 3)
		c.dead = map[int]bool{gone: true}
		voted := false
		c.lose = func(f flight) bool {
			_, accepted := f.frame.Body.(wire.Accepted)
			voted = voted || accepted && f.from == second
			return accepted || f.from == 3 && f.to == second || f.from == second && f.to == 3
		}
		c.step(3, &ipam.Presence{Peer: c.peers[first].machine.Self(), Alive: true})
		c.step(first, &ipam.Presence{Peer: c.peers[3].machine.Self(), Alive: true})
		c.run(time.Minute, func() bool { return voted })
		c.die(0, 1, 2, 3)
		c.lose = without(gone, 3)
		if comesBack {
			c.lose = without(gone)
		}
		c.reboot([]int{first, second}, gone, 3)
		c.wait(10 * time.Second)
		for _, i := range []int{first, second} {
			s := c.peers[i].machine.State()
			if got := c.status(i).State; got != ipam.Ready || s.Slot == was || len(s.Roster) != 4 {
				t.Errorf("the new one there: %t: %s is %v at slot %d, which was %d, with %d peers", comesBack, c.name(i), got, s.Slot, was, len(s.Roster))
			}
		}
		_ = c.full(first, cidr)
		_ = c.full(second, cidr)
		c.heldOnce(cidr)
	}
}

// A host boots beside one that has been in its cluster, and is in none now. That one says nothing about
// what was decided.
func TestBootBesideOneWithoutCluster(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	c.wait(time.Minute)
	order := c.order()
	first, stays, starts := order[0], order[1], order[2]
	c.die(starts)
	c.giveUp(first, starts)
	_ = c.full(first, cidr)
	var asked uint64
	c.lose = func(f flight) bool {
		if h, ok := f.frame.Body.(wire.Hello); ok && f.from == starts {
			asked = h.Question
		}
		return true
	}
	c.reboot([]int{starts}, first)
	c.wait(time.Second)
	start := c.peers[starts].machine.Identity()
	c.say(starts, stays, wire.Welcome{Hello: wire.Hello{Spoken: 1, Question: asked}, Boot: start.Boot, Nonce: start.Nonce}, func(h *wire.Header) { h.Cluster, h.Slot = [16]byte{}, 0 })
	c.wait(time.Second)
	if got := c.status(starts).State; got != ipam.Checking {
		t.Errorf("it is %v", got)
	}
}

// A host boots beside one whose database is known to be an old one: its answer is worth nothing.
func TestBootBesideAnOldDatabase(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(time.Minute)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, stays, starts := order[0], order[1], order[2]
	old := maps.Clone(c.peers[stays].disk)
	c.die(starts)
	c.start(stays)
	c.part(stays, starts)
	c.wait(5 * time.Second)
	c.giveUp(first, starts)
	_ = c.full(first, cidr)
	c.peers[stays].disk = old
	c.lose = func(f flight) bool {
		_, copied := f.frame.Body.(wire.Copied)
		return f.from == first && !copied
	}
	c.forked = true // it is an old one
	c.start(stays)
	c.wait(5 * time.Second)
	if got := c.status(stays).State; got != ipam.Suspended {
		t.Fatalf("the old one is %v", got)
	}
	c.lose = without(first)
	c.reboot([]int{starts}, first)
	c.wait(time.Minute)
	if got := c.status(starts).State; got != ipam.Checking {
		t.Errorf("it is %v", got)
	}
	wantErr(t, c.full(starts, cidr), ipam.ErrNotReady)
	c.heldOnce(cidr)
}

// A survivor has accepted that another opens a block, which was decided so, and has not heard that. It goes on
// alone as that one is lost, whose containers may live: the block is that one's.
func TestRecoveredKeepsWhatItAccepted(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	opens, survives, dead := order[0], order[1], order[2]
	for _, i := range order {
		if r := c.ask(i, creation(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(time.Minute)
	was := c.peers[opens].machine.State().Slot
	c.die(dead)
	c.lose = func(f flight) bool { return f.from == opens && f.to == survives && f.frame.Slot > was }
	_ = c.full(opens, cidr)
	if got := c.peers[opens].machine.State().Slot; got == was || c.peers[survives].machine.State().Slot != was {
		t.Fatalf("nothing was decided that the survivor has not heard: slot %d", got)
	}
	c.die(opens, dead)
	c.wait(20 * time.Second)
	if r := c.ask(survives, &ipam.RecoverRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	_ = c.full(survives, cidr)
	c.heldOnce(cidr)
}

// The seat of a host changes while it proposes slot 1, as names are looked up anew. Its own vote counts once.
func TestSeatChangesInABallot(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		c.lose = func(f flight) bool { // they meet, and are asked nothing
			switch f.frame.Body.(type) {
			case wire.Hello, wire.Welcome:
				return false
			}
			return true
		}
	})
	c.wait(20 * time.Second)
	for _, seat := range []int{2, 1} {
		c.step(0, &ipam.Presence{Self: true, Seat: seat})
		c.wait(time.Second)
	}
	if got := c.peers[0].machine.State().Slot; got > 0 {
		t.Error("it has founded the cluster with no vote but its own")
	}
}

// All hosts lose their power as the first one has proposed an admission that nobody else has
// accepted yet: only its own acceptor has it. All of them boot and see each other.
func TestBootWithMinorityUndecided(t *testing.T) {
	for _, boot := range []string{"same", "another"} {
		for _, whole := range []bool{true, false} {
			c := newThreeAndOne(t, true)
			order := c.order()
			first := order[0]
			cidr := prefix("10.50.0.0/24")
			for _, i := range order[:3] {
				if r := c.ask(i, creation(cidr)); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			c.wait(time.Minute)
			c.lose = func(f flight) bool {
				_, acc := f.frame.Body.(wire.Accept)
				return acc || f.from == 3 && f.to != first || f.to == 3 && f.from != first
			}
			asked := false
			lose := c.lose
			c.lose = func(f flight) bool {
				_, acc := f.frame.Body.(wire.Accept)
				asked = asked || acc && f.from == first
				return lose(f)
			}
			c.step(3, &ipam.Presence{Peer: c.peers[first].machine.Self(), Alive: true})
			c.step(first, &ipam.Presence{Peer: c.peers[3].machine.Self(), Alive: true})
			c.run(time.Minute, func() bool { return asked })
			c.silence(0, 1, 2, 3)
			c.queue = nil
			c.wait(20 * time.Second)
			c.lose = without(3)
			c.dead = nil
			at := c.now
			hosts := order[:3]
			if !whole { // processes only, of the two others
				hosts = order[1:3]
			}
			for _, i := range hosts {
				c.peers[i].cfg.HostBoot.ID = boot
				c.start(i)
			}
			for _, i := range order[:3] {
				for _, j := range order[:3] {
					if i != j {
						c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self(), Alive: true})
					}
				}
			}
			took := map[int]time.Duration{}
			c.run(5*time.Minute, func() bool {
				for _, i := range hosts {
					if _, ok := took[i]; !ok && c.status(i).State == ipam.Ready {
						took[i] = c.now.Sub(at)
					}
				}
				return len(took) == len(hosts)
			})
			for _, d := range took {
				if d > time.Second {
					t.Errorf("boot %s, first boots too %t: %v to be ready", boot, whole, d)
				}
			}
		}
	}
}

// A host that was evicted comes back, and its admission is accepted by one voter when the proposer is lost, and so is it.
// It boots beside the two that are left, of whom that one is undecided: that is decided, and it is admitted.
func TestBootOfOneWhoseAdmissionIsUndecided(t *testing.T) {
	for _, alone := range []bool{false, true} {
		c := newLockstepWith(t, 4, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg.BootAlone = alone
				p.cfg.EvictAfter = -1
			}
		})
		c.run(time.Minute, c.agreed)
		order := c.order()
		first, accepts, other, back := order[0], order[1], order[2], order[3]
		cidr := prefix("10.50.0.0/24")
		for _, i := range order {
			if r := c.ask(i, creation(cidr)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		c.wait(time.Minute)
		c.die(back)
		if err := c.ask(first, &ipam.EvictRequest{Peer: c.name(back)}).Err; err != nil {
			t.Fatal(err)
		}
		c.wait(time.Second)
		was := c.peers[first].machine.State().Slot
		voted := false
		c.lose = func(f flight) bool {
			_, accept := f.frame.Body.(wire.Accept)
			_, accepted := f.frame.Body.(wire.Accepted)
			voted = voted || accepted && f.from == accepts
			switch f.frame.Body.(type) {
			case wire.Hello, wire.Welcome: // by which the one that comes back may go on
				return false
			}
			return accepted || accept && f.to == other || f.from == back && f.to != first || f.to == back && f.from != first
		}
		c.dead = nil
		c.start(back)
		for _, i := range order[:3] {
			c.step(i, &ipam.Presence{Peer: c.peers[back].machine.Self(), Alive: true})
		}
		c.run(time.Minute, func() bool { return voted })
		c.silence(first, back)
		c.queue = nil
		c.wait(time.Second)
		c.die(first, back)
		if got := c.peers[accepts].machine.State().Slot; got != was {
			t.Fatalf("slot %d, was %d", got, was)
		}
		c.lose = func(flight) bool { return false }
		c.dead = map[int]bool{first: true}
		c.peers[back].cfg.HostBoot.ID = "another"
		c.start(back)
		c.step(back, &ipam.Presence{Peer: c.peers[first].machine.Self()})
		for _, i := range order[1:3] {
			c.step(i, &ipam.Presence{Peer: c.peers[back].machine.Self(), Alive: true})
		}
		c.wait(10 * time.Second)
		if got := c.status(back).State; got != ipam.Ready {
			t.Errorf("alone %t: it is %v: %v", alone, got, c.status(back).Problems)
		}
	}
}

// A host boots, hears from one of the four others, and is suspended before it hears from another: it is
// evicted and forgotten meanwhile. It goes on, and reaches one alone that lags. What the first one said is of another time.
func TestSuspendedDuringItsBootCheck(t *testing.T) {
	c := newLockstep(t, 5)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	order := c.order()
	first, says, lags, fourth, boots := order[0], order[1], order[2], order[3], order[4]
	for _, i := range order {
		if r := c.ask(i, creation(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(time.Minute)
	c.lose = without(first, lags, fourth)
	c.peers[boots].cfg.HostBoot.ID = "another"
	c.start(boots)
	c.part(boots, first, lags, fourth)
	c.wait(2 * time.Second)
	if got := c.status(boots).State; got != ipam.Checking {
		t.Fatalf("it is %v", got)
	}
	c.lose = without(lags)
	c.dead = map[int]bool{boots: true}
	c.peers[boots].wake = time.Time{}
	c.part(lags, first, says, fourth)
	for _, i := range order[:4] {
		c.step(i, &ipam.Presence{Peer: c.peers[boots].machine.Self()})
	}
	now := c.now
	c.run(2*time.Minute, func() bool { c.peers[boots].wake = time.Time{}; return c.now.Sub(now) > 20*time.Second })
	for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(boots)}, &ipam.ForgetRequest{Peer: c.name(boots)}} {
		call := c.call(first, r)
		c.run(time.Minute, func() bool { c.peers[boots].wake = time.Time{}; _, ok := c.peers[first].replies[call]; return ok })
		if err := c.peers[first].replies[call].Err; err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		call := c.call(first, docker(cidr))
		c.run(time.Minute, func() bool { c.peers[boots].wake = time.Time{}; _, ok := c.peers[first].replies[call]; return ok })
		if c.peers[first].replies[call].Err != nil {
			break
		}
	}
	c.dead = nil
	c.lose = between(boots, lags)
	c.step(boots, ipam.ClockSet{By: time.Hour})
	c.part(boots, first, says, fourth)
	c.step(boots, &ipam.Presence{Peer: c.peers[lags].machine.Self(), Alive: true})
	c.step(lags, &ipam.Presence{Peer: c.peers[boots].machine.Self(), Alive: true})
	c.wait(time.Minute)
	if got := c.status(boots).State; got != ipam.Checking {
		t.Errorf("it is %v", got)
	}
	_ = c.full(boots, cidr)
	c.heldOnce(cidr)
}

// As TestForgottenWhileSuspended, where the network of the host comes back some seconds after it has: most do.
func TestForgottenWhileSuspendedWithoutNetwork(t *testing.T) {
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
	c.wait(4 * time.Second)
	if r := c.ask(sleeps, docker(cidr)); r.Err == nil {
		t.Errorf("%v was handed out", r.Address.Address)
	}
	c.heldOnce(cidr)
}
