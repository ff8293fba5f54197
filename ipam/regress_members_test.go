package ipam_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ipamtest"
	"github.com/ringlet/ringlet/ipam/wire"
)

// tick lets time pass for some peers, as a carrier does that wakes even those
// who want nothing.
func (c *lockstep) tick(d time.Duration, peers ...int) {
	for end := c.now.Add(d); c.now.Before(end); c.now = c.now.Add(10 * time.Millisecond) {
		for len(c.queue) > 0 && !c.queue[0].at.After(c.now) {
			f := c.queue[0]
			c.queue = c.queue[1:]
			c.step(f.to, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
		}
		for _, i := range peers {
			c.step(i, ipam.Tick{})
		}
	}
}

// A peer is evicted, comes back, and is lost once more long after: its space is
// kept back anew, for all of the quarantine.
func TestQuarantineBeginsAnew(t *testing.T) {
	const quarantine = 24 * time.Hour
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Quarantine = quarantine
		}
	})
	c.found()
	cidr := prefix("10.50.0.0/24")
	taken := map[netip.Addr]bool{}
	for range 20 {
		taken[c.ask(2, docker(cidr)).Address.Address.Addr()] = true
	}
	lost := c.peers[2].machine.Self()
	c.die(2)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(5 * time.Minute)
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(quarantine + time.Hour)
	c.die(2)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(10 * time.Second)
	if g := c.peers[0].machine.State().Gone(lost); g == nil || g.Forgotten {
		t.Errorf("10 seconds after its eviction its space is given up: %+v", g)
	}
	for {
		r := c.ask(0, docker(cidr))
		if r.Err != nil {
			break
		}
		if a := r.Address.Address.Addr(); taken[a] {
			t.Fatalf("host-0 hands out %v, which a container has on host-2, which is cut off and lives", a)
		}
	}
}

// A survivor that recovered gives way to another cluster: nothing of the old
// one is read from its disk at the next start.
func TestDissolvedAfterRecovery(t *testing.T) {
	for _, split := range []bool{false, true} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for i, p := range c.peers {
				p.cfg.Formation = ipam.Formation{}
				p.cfg.Join = i == 1
			}
			c.lose = func(f flight) bool { return f.from == 2 || f.to == 2 }
		})
		// host-0 and host-1 have a cluster, in which pools come and go, host-2 another.
		c.run(time.Minute, func() bool { return len(c.peers[0].machine.State().Roster) == 2 })
		for range 6 {
			if r := c.ask(0, &ipam.PoolCreation{CIDR: prefix("10.50.0.0/24")}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if r := c.ask(0, &ipam.PoolRemoval{Pool: "10.50.0.0/24"}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if r := c.ask(2, &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")}); r.Err != nil {
			t.Fatal(r.Err)
		}
		for i := range 3 {
			for j := range 3 {
				if i != j {
					c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
				}
			}
		}
		// host-0 is lost for good; host-1 recovers, and has no pool.
		c.silence(0)
		c.wait(15 * time.Second)
		if r := c.ask(1, &ipam.RecoverRequest{}); r.Err != nil {
			t.Fatal(r.Err)
		}
		// It meets host-2, gives way, and is admitted there.
		c.lose = func(flight) bool { return false }
		c.step(1, &ipam.Presence{Peer: c.peers[2].machine.Self(), Alive: true})
		c.step(2, &ipam.Presence{Peer: c.peers[1].machine.Self(), Alive: true})
		for range 2 {
			c.say(1, 2, wire.Beat{}, func(*wire.Header) {})
			c.tick(6*time.Second, 1, 2)
		}
		a, b := c.peers[1].machine.State(), c.peers[2].machine.State()
		if a.Cluster != b.Cluster || len(b.Roster) != 2 {
			t.Fatalf("they are not in one cluster")
		}
		slot, digest := a.Slot, a.Digest()
		if split { // while it is off, the other one goes on
			c.silence(0, 1)
			c.tick(20*time.Second, 2)
			if r := c.ask(2, &ipam.PoolCreation{CIDR: prefix("10.61.0.0/24")}); r.Err != nil {
				t.Fatal(r.Err)
			}
			c.silence(0)
		}
		c.start(1)
		if a = c.peers[1].machine.State(); a.Slot != slot || a.Digest() != digest {
			t.Errorf("host-1 stood at slot %d of its cluster, and is at slot %d after a restart", slot, a.Slot)
		}
		c.wait(30 * time.Second) // lockstep.compare fails the test where a slot has two states
	}
}

// While a cut-off peer asks another one for space, which cannot be decided, that
// one goes on with what it has.
func TestCutOffKeepsItsStock(t *testing.T) {
	c := newLockstepWith(t, 5, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Deal = chronicle.DealAll
		}
	})
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	for i := range c.peers {
		if r := c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for c.status(0).Pools[0].Free > 0 || c.status(0).Pools[0].Mine > 0 {
		if r := c.ask(0, docker(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(5 * time.Second)
	c.lose = func(f flight) bool { return (f.from < 2) != (f.to < 2) }
	for i := range c.peers {
		for j := range c.peers {
			if (i < 2) != (j < 2) {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
			}
		}
	}
	c.wait(10 * time.Second)
	before := c.status(1).Pools[0].Mine
	for range 4 { // docker run on the full one, four times in vain
		c.ask(0, docker(cidr))
	}
	if r := c.ask(1, docker(cidr)); r.Err != nil {
		t.Errorf("of its %d addresses host-1 hands out none: %v", before, r.Err)
	}
}

// A peer is to leave, is cut off before it is decided, and evicted: when it is
// back it leaves, and does not keep its space.
func TestEvictedWhileItLeaves(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.vacate(1, prefix("10.50.0.0/24"))
	c.wait(time.Second)
	c.die(1)
	c.call(1, &ipam.LeaveRequest{})
	c.wait(30 * time.Second)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-1"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.heal()
	c.wait(time.Hour)
	r := c.ask(1, &ipam.LeaveRequest{})
	if n := c.status(0).Pools[0].Quarantined; n > 0 {
		t.Errorf("it is %s, leave answers %v, and %d addresses are kept back for it", c.status(1).State, r.Err, n)
	}
}

// A peer becomes the last of its cluster while it is to leave: it stays, and can
// do everything.
func TestLastOneStays(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	if r := c.ask(0, &ipam.PoolCreation{CIDR: cidr}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for i := range c.peers {
		c.call(i, &ipam.LeaveRequest{})
	}
	c.tick(time.Minute, 0, 1, 2)
	for i := range c.peers {
		if c.status(i).State == ipam.Left {
			continue
		}
		id := c.call(i, docker(cidr))
		c.tick(30*time.Second, i)
		if r := c.peers[i].replies[id]; r.Err != nil {
			t.Errorf("of %d free addresses the last one hands out none: %v", c.status(i).Pools[0].Free, r.Err)
		}
	}
}

// Who undoes a draining while the call that asked to leave still waits has undone
// it.
func TestUndoneWhileLeaveWaits(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.vacate(1, prefix("10.50.0.0/24"))
	c.wait(time.Second)
	c.call(1, &ipam.LeaveRequest{})
	if r := c.ask(1, &ipam.DrainRequest{Undo: true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(30 * time.Second)
	if s := c.status(1); s.State != ipam.Ready {
		t.Errorf("draining was undone, and the peer is %s", s.State)
	}
}

// A peer that has just been admitted, and has its first space, drains: it does
// not become active behind that.
func TestDrainsWhileItIsFilling(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	c.vacate(2, cidr)
	c.wait(2 * time.Second)
	if r := c.ask(2, &ipam.LeaveRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	c.run(time.Minute, c.agreed)
	c.wait(time.Second)
	if r := c.ask(2, docker(cidr)); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.lose = undecided
	drain := c.call(2, &ipam.DrainRequest{})
	c.wait(5 * time.Second)
	c.lose = func(flight) bool { return false }
	c.wait(10 * time.Second)
	r, ok := c.peers[2].replies[drain]
	if m := c.peers[0].machine.State().Member(c.peers[2].machine.Self()); !ok || r.Err != nil || m.Phase != chronicle.Draining {
		t.Errorf("drain answered %v (answered: %t), and the peer is %v", r.Err, ok, m.Phase)
	}
}

// A newcomer of which the first voter has heard nothing yet has the whole lease
// time: it is not evicted at once, admitted, evicted ...
func TestNewcomerHasItsLease(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.EvictAfter = 15 * time.Minute
		}
	})
	c.found()
	order := c.order()
	first, last := order[0], order[2]
	c.vacate(last, prefix("10.50.0.0/24"))
	c.wait(2 * time.Second)
	if r := c.ask(last, &ipam.LeaveRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(30 * time.Minute)
	c.lose = func(f flight) bool { return f.from == first && f.to == last || f.from == last && f.to == first }
	c.peers[last].cfg.Formation = ipam.Formation{}
	c.peers[last].disk, c.peers[last].machine = ipamtest.Disk{}, nil
	c.start(last)
	c.step(last, &ipam.Presence{Peer: c.peers[first].machine.Self()})
	c.step(order[1], &ipam.Presence{Peer: c.peers[last].machine.Self(), Alive: true})
	slot := c.peers[first].machine.State().Slot
	c.wait(time.Minute)
	if n := c.peers[first].machine.State().Slot - slot; n > 10 {
		t.Errorf("a newcomer takes %d slots in its first minute", n)
	}
}

// A peer that drains, and has very many stretches to give back, gives them back,
// a part at a time: what it sends can be read.
func TestDrainsInManyParts(t *testing.T) {
	c := newLockstepWith(t, 2, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Deal = chronicle.DealAll
			p.cfg.Rest = -1
		}
	})
	c.run(time.Minute, c.agreed)
	second := c.order()[1]
	cidr := prefix("10.0.0.0/14")
	if r := c.ask(second, &ipam.PoolCreation{CIDR: cidr}); r.Err != nil {
		t.Fatal(r.Err)
	}
	got := make([]netip.Addr, 80_000)
	for i := range got {
		got[i] = c.peers[second].replies[c.call(second, docker(cidr))].Address.Address.Addr()
	}
	for i, a := range got {
		if i%2 == 0 {
			c.call(second, &ipam.AddressRelease{Network: local(cidr), Address: a})
		}
	}
	call := c.call(second, &ipam.DrainRequest{})
	c.wait(2 * time.Second) // fails in lockstep.step: "sends what nobody can read"
	if r, ok := c.peers[second].replies[call]; !ok || r.Err != nil {
		t.Errorf("%v", r.Err)
	}
}

// A peer that now and then gets a snapshot keeps no more slots than any other.
func TestSlotsOnDiskAreBounded(t *testing.T) {
	const history = 16
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg = ipam.Remembering(p.cfg, history)
		}
	})
	c.found()
	near, far := c.order()[0], c.order()[2]
	a := address("10.50.0.250")
	move := func(n int) {
		for range n {
			for _, r := range []ipam.Request{
				&ipam.ReserveRequest{Pool: "10.50.0.0/24", First: a, Last: a, Kind: chronicle.KindExcluded},
				&ipam.UnreserveRequest{Pool: "10.50.0.0/24", First: a, Last: a, Kind: chronicle.KindExcluded},
			} {
				if r := c.ask(near, r); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			c.wait(10 * time.Millisecond)
		}
	}
	for range 10 {
		c.die(far)
		move(20)
		c.heal()
		c.wait(5 * time.Second)
		move(20)
	}
	slots := map[int]int{}
	for _, i := range []int{near, far} {
		for k := range c.peers[i].disk {
			if strings.HasPrefix(k, "chronicle\x00\x00\x01") {
				slots[i]++
			}
		}
	}
	if slots[far] > 4*history {
		t.Errorf("after 10 absences it has %d slots on its disk, the other one %d", slots[far], slots[near])
	}
}

// A pool whose subnet was chosen goes also when the last other host that used it
// has left within the minute.
func TestChosenPoolGoesWhereOneIsLeft(t *testing.T) {
	c := newLockstep(t, 2)
	c.run(time.Minute, c.agreed)
	first, other := c.order()[0], c.order()[1]
	r := c.ask(other, &ipam.PoolRequest{Space: ipam.Local})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	c.ask(other, &ipam.PoolRelease{Network: r.Pool.Network})
	if r := c.ask(other, &ipam.LeaveRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.tick(10*time.Minute, first)
	if n := len(c.peers[first].machine.State().Pools); n > 0 {
		t.Errorf("10 minutes later %d chosen pools without a network are still there", n)
	}
}

// Who recovers a cluster that it was to leave stays in it.
func TestRecoversWhatItWasToLeave(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.vacate(1, prefix("10.50.0.0/24"))
	c.die(0, 2)
	c.ask(1, &ipam.LeaveRequest{}) // cannot be decided
	if r := c.ask(1, &ipam.RecoverRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.dead = nil
	for _, i := range []int{0, 2} {
		c.reinstall(i, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
		c.step(1, &ipam.Presence{Peer: c.peers[i].machine.Self(), Alive: true})
	}
	c.wait(time.Minute)
	if s := c.status(1); s.State != ipam.Ready {
		t.Errorf("it has recovered the cluster, and is %s", s.State)
	}
}

// A host has lost its database and is told to leave before it has taken over from its
// former self. A late request has it admitted again: it takes over then, which is what
// its own space waits for, and leaves.
func TestLeftBeforeItTookOverIsAdmittedAgain(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
		}
	})
	lists := func(d time.Duration) {
		for range d / time.Second {
			for i := range c.peers {
				c.call(i, &ipam.Inventory{Begun: c.now})
			}
			c.wait(time.Second)
		}
	}
	lists(10 * time.Second)
	c.found()
	lists(time.Minute)
	former := c.peers[2].machine.Self()
	c.dead = map[int]bool{2: true}
	c.wait(time.Second)
	c.reinstall(2, func(*ipam.Config) {})
	for i := range 2 {
		c.step(i, &ipam.Presence{Peer: former})
	}
	c.heal()
	self := c.peers[2].machine.Self()
	in := func() bool { return c.peers[0].machine.State().Member(self) != nil }
	c.run(time.Minute, in)
	c.call(2, &ipam.LeaveRequest{})
	c.run(9*time.Second, func() bool { return !in() })
	if gone := c.peers[0].machine.State().Gone(former); gone == nil || gone.Forgotten {
		t.Fatal("its former self is not there to take over from")
	}

	c.say(0, 2, wire.Join{Name: "host-2", Machine: 3}, func(h *wire.Header) { h.Slot, h.Digest = 0, 0 })
	c.run(time.Minute, in)
	c.lose = func(f flight) bool { return f.from == 2 } // until there is a pool of which it has a share
	cidr := netip.MustParsePrefix("10.61.0.0/24")
	if err := c.ask(0, &ipam.PoolCreation{CIDR: cidr}).Err; err != nil {
		t.Fatal(err)
	}
	c.lose = func(flight) bool { return false }
	owns := func() bool {
		for range c.peers[0].machine.State().PoolOf(cidr).Ring.OwnedBy(self) {
			return true
		}
		return false
	}
	if !owns() {
		t.Fatal("it got no share")
	}
	lists(5 * time.Minute)
	if in() || owns() {
		t.Errorf("it has not left: %+v", c.status(2).Problems)
	}
}

// A host is given another name, with the database that it has: the others show it, and
// know it, under that one, also after they have started anew themselves.
func TestAnotherName(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	held := c.ask(2, docker(cidr)).Address.Address.Addr()
	c.peers[2].cfg.Name = "other"
	c.start(2)
	for i := range 2 {
		c.step(i, &ipam.Presence{Peer: c.peers[2].machine.Self(), Alive: true, Seat: 3, Name: "other"})
	}
	c.wait(10 * time.Second)
	c.start(1)
	c.wait(10 * time.Second)
	for i := range c.peers {
		var names []string
		for _, p := range c.status(i).Peers {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if want := []string{"host-0", "host-1", "other"}; !slices.Equal(names, want) {
			t.Errorf("%s shows the peers %q, want %q", c.name(i), names, want)
		}
	}
	if who, err := c.peers[0].machine.Who(c.now, held); err != nil || who.Peer != "other" {
		t.Errorf("%v is with %+v, %v", held, who, err)
	}
	wantErr(t, c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err, ipam.ErrPeerNotFound)
	c.die(2)
	for i := range 2 {
		if r := c.ask(i, &ipam.EvictRequest{Peer: "other"}); r.Err != nil {
			t.Errorf("%s: %v", c.name(i), r.Err)
		}
	}
}

// A host that drains takes no space that is free: who needs some there is told so at
// once, and neither waits for agreement that nobody asks for nor hears that the pool
// is full. With the draining undone the same is granted.
func TestDrainingSaysThatItTakesNoMore(t *testing.T) {
	cidr := prefix("10.50.0.0/24")
	for _, tt := range []struct {
		name string
		ask  func(*lockstep) error
	}{
		{"docker run --ip of what nobody has", func(c *lockstep) error { return c.ip(0, cidr, netip.MustParseAddr("10.50.0.250")) }},
		{"docker run, with the own space used up", func(c *lockstep) error { return c.full(0, cidr) }},
		{"docker run in an --ip-range that nobody has", func(c *lockstep) error {
			q := docker(cidr)
			q.Network.Range = prefix("10.50.0.240/28")
			return c.ask(0, q).Err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			if r := c.ask(0, &ipam.DrainRequest{}); r.Err != nil {
				t.Fatal(r.Err)
			}
			asked := c.now
			if err := tt.ask(c); err == nil || !strings.Contains(err.Error(), "host-0 is draining") {
				t.Errorf("it is told %v", err)
			}
			if took := c.now.Sub(asked); took > 10*time.Second {
				t.Errorf("after %v", took)
			}
			if r := c.ask(0, &ipam.DrainRequest{Undo: true}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if err := c.ip(0, cidr, netip.MustParseAddr("10.50.0.251")); err != nil {
				t.Errorf("with the draining undone: %v", err)
			}
		})
	}
}

// Pools come and go, as where containers of tests are started all day: what others
// said that they have in those that went is forgotten with them, also where they say
// it late.
func TestWhatOthersHaveGoesWithThePool(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	late := []flight{}
	c.lose = func(f flight) bool {
		if _, is := f.frame.Body.(wire.Announce); is && f.to == 1 {
			late = append(late, f)
		}
		return false
	}
	cidr := prefix("10.60.0.0/24")
	for range 10 {
		if r := c.ask(0, &ipam.PoolCreation{CIDR: cidr}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.wait(15 * time.Second)
		if r := c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(15 * time.Second)
	for i, p := range c.peers {
		if others, pools := len(c.peers)-1, len(p.machine.State().Pools); p.machine.Told() > others*pools {
			t.Errorf("%s remembers %d announcements of %d others, with %d pools", c.name(i), p.machine.Told(), others, pools)
		}
	}
	if len(late) < 10 {
		t.Fatalf("%d announcements", len(late))
	}
	for _, f := range late {
		c.step(1, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
	}
	if n := c.peers[1].machine.Told(); n > 2 {
		t.Errorf("%d announcements, after some were late", n)
	}
}

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

// A host is to be evicted without which the others have no majority, as the first of two:
// that is refused, and is not done when the host is back, by its own vote.
func TestNobodyIsEvictedByItsOwnVote(t *testing.T) {
	for _, tt := range []struct {
		hosts int
		lost  int
	}{{2, 1}, {3, 2}} {
		c := newLockstep(t, tt.hosts)
		c.run(time.Minute, c.agreed)
		order := c.order()
		if tt.hosts == 3 { // the one that is left has two votes once another is gone
			order = []int{order[1], order[2], order[0]}
		}
		stays := order[tt.lost]
		c.die(order[:tt.lost]...)
		refused(t, c.ask(stays, &ipam.EvictRequest{Peer: c.name(order[0])}).Err, "ringlet recover is for a majority that is gone for good")
		slot := c.peers[stays].machine.State().Slot
		c.wait(time.Hour)
		c.heal()
		c.wait(time.Minute)
		if s := c.peers[stays].machine.State(); len(s.Roster) != tt.hosts || s.Slot != slot {
			t.Errorf("of %d hosts %d are in the roster, %d slots later", tt.hosts, len(s.Roster), s.Slot-slot)
		}
	}
}

// A host that drains is evicted, as where it is off for a while: it goes on draining when
// it is back, also if it starts anew meanwhile, until that is undone.
func TestDrainsOnAfterAnEviction(t *testing.T) {
	for name, back := range map[string]func(*lockstep){
		"cut off":    func(*lockstep) {},
		"off":        func(c *lockstep) { c.start(2) },
		"off, twice": func(c *lockstep) { c.start(2); c.wait(100 * time.Millisecond); c.start(2) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			phase := func() chronicle.Phase {
				c.run(time.Minute, c.agreed)
				c.wait(10 * time.Second)
				return c.peers[0].machine.State().Member(c.peers[2].machine.Self()).Phase
			}
			if r := c.ask(2, docker(prefix("10.50.0.0/24"))); r.Err != nil {
				t.Fatal(r.Err)
			}
			if r := c.ask(2, &ipam.DrainRequest{}); r.Err != nil {
				t.Fatal(r.Err)
			}
			c.die(2)
			if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
				t.Fatal(r.Err)
			}
			c.heal()
			back(c)
			if got := phase(); got != chronicle.Draining {
				t.Errorf("when it is back it is %v", got)
			}
			if r := c.ask(2, &ipam.DrainRequest{Undo: true}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := phase(); got != chronicle.Active {
				t.Errorf("with its draining undone it is %v", got)
			}
		})
	}
}

// A host lost its database, was set up again under another name, and has its old name
// back: the cluster knows it by the other one, so that it cannot take over from its
// former self. It does not try for ever, and what is asked of that space is refused.
func TestNamedAsItsFormerSelfAgain(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.Machine = uint64(i + 1)
		}
	})
	c.found()
	cidr := prefix("10.50.0.0/24")
	held := c.ask(2, docker(cidr)).Address.Address.Addr()
	c.wait(time.Minute)
	c.die(2)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.dead = nil
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation, cfg.Machine = ipam.Formation{}, 33 })
	c.run(time.Minute, c.agreed)
	c.wait(time.Minute)
	c.peers[2].cfg.Machine = 3
	c.start(2)
	c.wait(time.Minute)
	was := c.peers[0].machine.State().Slot
	c.wait(5 * time.Minute)
	if slots := c.peers[0].machine.State().Slot - was; slots > 5 {
		t.Errorf("%d decisions in five minutes in which nobody wants anything", slots)
	}
	refused(t, c.ip(2, cidr, held), "give up its space with ringlet forget host-2")
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

// A host has another name since its last start, of which others heard from itself before the carrier
// told them. They know it by that one also after they have started anew while it is off.
func TestAnotherNameOfOneThatIsOff(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.peers[2].cfg.Name = "other"
	c.start(2)
	c.wait(10 * time.Second)
	c.peers[2].cfg.Name = "" // which the carrier tells whoever starts
	c.silence(2)
	c.start(0)
	c.wait(10 * time.Second)
	if got := c.peers[0].machine.NameOf(c.peers[2].machine.Self()); got != "other" {
		t.Errorf("it is called %s", got)
	}
}

// The majority is lost while an eviction is under way: it stays wanted, and whoever asked for it
// is told that, and not that it cannot be done.
func TestEvictionUnderWayIsToldOf(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	order := c.order()
	lost, other, asks := order[2], order[0], order[1]
	c.die(lost)
	c.lose = func(flight) bool { return true }
	call := c.call(asks, &ipam.EvictRequest{Peer: c.name(lost)})
	c.step(asks, &ipam.Presence{Peer: c.peers[other].machine.Self()})
	c.run(time.Minute, func() bool { _, ok := c.peers[asks].replies[call]; return ok })
	refused(t, c.peers[asks].replies[call].Err, "is done as soon as")
	c.lose = func(flight) bool { return false }
	c.heal()
	c.step(asks, &ipam.Presence{Peer: c.peers[lost].machine.Self()})
	c.dead = map[int]bool{lost: true}
	c.run(time.Minute, func() bool { return len(c.peers[asks].machine.State().Roster) == 2 })
}
