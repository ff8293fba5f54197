package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// between lets frames pass between two peers alone.
func between(a, b int) func(flight) bool {
	return func(f flight) bool { return (f.from != a || f.to != b) && (f.from != b || f.to != a) }
}

// apartAtFirst is n hosts of which those named found a cluster alone, and the others
// join one. Nobody hears of anybody.
func apartAtFirst(t *testing.T, n int, alone ...int) *lockstep {
	t.Helper()
	c := newLockstepWith(t, n, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Formation, p.cfg.Join = ipam.Formation{}, true
		}
		for _, i := range alone {
			c.peers[i].cfg.Join = false
		}
		c.lose = func(flight) bool { return true }
	})
	c.apart()
	return c
}

// apart has nobody hear of anybody any more.
func (c *lockstep) apart() {
	c.lose = func(flight) bool { return true }
	for i := range c.peers {
		for j := range c.peers {
			if i != j {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
			}
		}
	}
}

// see lets two peers see each other, and nobody else.
func (c *lockstep) see(a, b int) {
	c.lose = between(a, b)
	c.step(a, &ipam.Presence{Peer: c.peers[b].machine.Self(), Alive: true})
	c.step(b, &ipam.Presence{Peer: c.peers[a].machine.Self(), Alive: true})
}

// meets has a peer meet a foreign cluster for long enough to give way to it.
func (c *lockstep) meets(i, foreign int) {
	for range 3 {
		c.say(i, foreign, wire.Beat{}, func(*wire.Header) {})
		c.tick(6*time.Second, i)
	}
}

// A cluster in which another one was is not dissolved for another cluster, though it has
// one member and no pool: the one that was evicted is in it as far as it knows, and
// would go on from there, as would whoever learns it from a third one.
func TestClusterOfOthersIsNotDissolved(t *testing.T) {
	c := apartAtFirst(t, 3, 0, 2)
	c.see(0, 1)
	c.run(time.Minute, func() bool { return len(c.peers[1].machine.State().Roster) == 2 })
	c.wait(2 * time.Second)
	c.apart()
	c.wait(15 * time.Second)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-1"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	cluster := c.peers[0].machine.State().Cluster
	c.meets(0, 2)
	if s := c.peers[0].machine.State(); s.Cluster != cluster {
		t.Fatalf("the one that stayed has dissolved it, and is at slot %d", s.Slot)
	}
	c.see(0, 1)
	c.say(1, 0, wire.Beat{}, func(*wire.Header) {})
	c.run(time.Minute, func() bool {
		a, b := c.peers[0].machine.State(), c.peers[1].machine.State()
		return len(a.Roster) == 2 && a.Slot == b.Slot
	})
}

// A host that was forgotten while it was off starts, and hears from the others that they
// know more. What that is does not come through, as on a way that loses what is large:
// it hands out nothing of what may be others' by now, as long as they are there.
func TestBootsBehind(t *testing.T) {
	for what, boot := range map[string]string{"the process": "same", "the host": "another"} {
		t.Run(what, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			cidr := prefix("10.50.0.0/24")
			c.network(2, cidr)
			c.vacate(2, cidr)
			c.die(2)
			for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: "host-2"}, &ipam.ForgetRequest{Peer: "host-2"}} {
				if r := c.ask(0, r); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			taken := map[netip.Addr]bool{}
			for {
				r := c.ask(0, docker(cidr))
				if r.Err != nil {
					break
				}
				taken[r.Address.Address.Addr()] = true
			}
			c.dead = nil
			c.lose = func(f flight) bool {
				switch f.frame.Body.(type) {
				case wire.Decided, wire.Snapshot:
					return f.to == 2
				}
				return false
			}
			c.peers[2].cfg.HostBoot.ID = boot
			c.start(2)
			c.heal()
			c.wait(25 * time.Second)
			if r := c.ask(2, docker(cidr)); r.Err == nil {
				t.Errorf("it hands out %v, which another host has: %t", r.Address.Address, taken[r.Address.Address.Addr()])
			}
			c.lose = func(flight) bool { return false }
			c.say(2, 0, wire.Beat{}, func(*wire.Header) {})
			c.run(time.Minute, func() bool { return c.isSuspended(2) })
			c.rejoin(2)
			c.run(time.Minute, c.agreed)
			if r := c.ask(2, docker(cidr)); r.Err == nil && taken[r.Address.Address.Addr()] {
				t.Errorf("it hands out %v, which another host has", r.Address.Address)
			}
		})
	}
}

// What a survivor was giving away, or freeing, when the majority was lost may have been
// decided without its hearing of it. It recovers the cluster, and does not hand that out:
// who uses it may live, as all whose ranges are kept back.
func TestRecoveredWhatWasGiven(t *testing.T) {
	c := newLockstepWith(t, 5, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Deal = chronicle.DealAll
		}
	})
	c.run(time.Minute, c.agreed)
	order := c.order()
	survivor, other := order[4], order[3]
	cidr := prefix("10.50.0.0/24")
	for i := range c.peers {
		c.network(i, cidr)
	}
	c.wait(5 * time.Second)
	given := address("10.50.0.150") // in the fifth share
	c.lose = func(f flight) bool {
		_, tells := f.frame.Body.(wire.Decided)
		return tells && f.to == survivor
	}
	if err := c.ip(other, cidr, given); err != nil {
		t.Fatal(err)
	}
	// Three are lost for good, and the two that are left are cut off from each other.
	c.queue = nil
	c.apart()
	c.wait(15 * time.Second)
	if r := c.ask(survivor, &ipam.RecoverRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.tick(2*time.Second, survivor)
	wantErr(t, c.ip(survivor, cidr, given), ipam.ErrAddressInUse, "lost and evicted")
	for {
		r := c.ask(survivor, docker(cidr))
		if r.Err != nil {
			break
		}
		if r.Address.Address.Addr() == given {
			t.Fatalf("%s recovered the cluster and hands out %v, which a container on %s has", c.name(survivor), given, c.name(other))
		}
	}
	if r := c.ask(survivor, &ipam.ForgetRequest{Peer: c.name(other)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := c.ip(survivor, cidr, given); err != nil {
		t.Errorf("the host that has it is gone for good: %v", err)
	}
}

// A host boots, and is answered by one who has accepted a slot in which the host was
// evicted, and does not know that it was decided: that is no answer, and as long as
// nobody else gives one it hands out nothing of what is another's by now.
func TestBootsBesideWhoAcceptedItsEviction(t *testing.T) {
	c := newLockstep(t, 3) // none of them goes on alone after a start of its host
	c.found()
	b, a, me := c.order()[0], c.order()[1], c.order()[2]
	cidr := prefix("10.50.0.0/24")
	c.wait(5 * time.Second)
	c.die(me)
	decided := false // the eviction, as far as b knows
	c.lose = func(f flight) bool {
		if f.from != b || f.to != a {
			return false
		}
		_, tells := f.frame.Body.(wire.Decided)
		decided = decided || tells
		return decided
	}
	slot := c.peers[a].machine.State().Slot
	if r := c.ask(b, &ipam.EvictRequest{Peer: c.name(me)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.queue = nil
	c.apart()
	c.lose = func(f flight) bool { return f.from == b || f.to == b }
	if at := c.peers[a].machine.State().Slot; at != slot {
		t.Fatalf("%s knows slot %d", c.name(a), at)
	}
	c.wait(15 * time.Second)
	if r := c.ask(b, &ipam.ForgetRequest{Peer: c.name(me)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	taken := map[netip.Addr]bool{}
	for {
		r := c.ask(b, docker(cidr))
		if r.Err != nil {
			break
		}
		taken[r.Address.Address.Addr()] = true
	}
	c.dead = nil
	c.peers[me].cfg.HostBoot.ID = "another"
	c.start(me)
	c.step(me, &ipam.Presence{Peer: c.peers[b].machine.Self()})
	c.step(a, &ipam.Presence{Peer: c.peers[me].machine.Self(), Alive: true})
	if r := c.ask(me, docker(cidr)); r.Err == nil {
		t.Errorf("%s hands out %v, which %s has: %t", c.name(me), r.Address.Address, c.name(b), taken[r.Address.Address.Addr()])
	}
	c.lose = func(flight) bool { return false }
	c.heal()
	for _, i := range []int{a, me} {
		c.say(i, b, wire.Beat{}, func(*wire.Header) {})
	}
	c.run(time.Minute, func() bool { return c.isSuspended(me) })
}
