package ipam_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
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
	c.peers[last].disk, c.peers[last].machine = machinetest.Disk{}, nil
	c.start(last)
	c.step(last, &ipam.Presence{Peer: c.peers[first].machine.Self()})
	c.step(order[1], &ipam.Presence{Peer: c.peers[last].machine.Self(), Alive: true})
	slot := c.peers[first].machine.State().Slot
	c.wait(time.Minute)
	if n := c.peers[first].machine.State().Slot - slot; n > 10 {
		t.Errorf("a newcomer takes %d slots in its first minute", n)
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
		refused(t, c.ask(stays, &ipam.EvictRequest{Peer: c.name(order[0])}).Err, "if a majority is gone for good, see ringlet recover")
		slot := c.peers[stays].machine.State().Slot
		c.wait(time.Hour)
		c.heal()
		c.wait(time.Minute)
		if s := c.peers[stays].machine.State(); len(s.Roster) != tt.hosts || s.Slot != slot {
			t.Errorf("of %d hosts %d are in the roster, %d slots later", tt.hosts, len(s.Roster), s.Slot-slot)
		}
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

// An eviction was under way as its host was cut off, and that one ends. An hour later, as it starts again, the host
// that it was about is long back: that is not evicted any more.
func TestEvictionOfOneThatIsBack(t *testing.T) {
	c := newLockstep(t, 4)
	c.found()
	order := c.order()
	lost, asks := order[2], order[3]
	c.die(lost)
	c.lose = func(f flight) bool { return f.from == asks || f.to == asks }
	wantErr(t, c.ask(asks, &ipam.EvictRequest{Peer: c.name(lost)}).Err, ipam.ErrUnreachable, "is done as soon as they agree")
	c.heal()
	c.part(asks, order[0], order[1], lost)
	c.wait(time.Hour)
	slot := c.peers[order[0]].machine.State().Slot
	c.lose = func(flight) bool { return false }
	c.start(asks)
	c.heal()
	c.wait(10 * time.Second)
	s := c.peers[order[0]].machine.State()
	if n := c.status(asks).Pending; s.Roster[2].ID != c.peers[lost].machine.Self() || n > 0 {
		t.Errorf("%d slots later the roster is %v, and %d commands are undecided", s.Slot-slot, s.Roster, n)
	}
	c.start(asks)
	if n := c.status(asks).Pending; n > 0 {
		t.Errorf("%d commands are wanted once more", n)
	}
}

// A host that was evicted asks one to admit it that is cut off with it, is admitted by the others, and leaves. When
// that one reaches the others again it does not bring back the one that has left.
func TestAdmissionOfOneThatHasLeft(t *testing.T) {
	c := newLockstep(t, 4)
	c.found()
	order := c.order()
	first, other, asked, leaves := order[0], order[1], order[2], order[3]
	self := c.peers[leaves].machine.Self()
	meet := func(a, b int) {
		c.step(a, &ipam.Presence{Peer: c.peers[b].machine.Self(), Alive: true})
		c.step(b, &ipam.Presence{Peer: c.peers[a].machine.Self(), Alive: true})
	}
	in := func() bool { return c.peers[leaves].machine.State().Member(self) != nil }
	c.vacate(leaves, prefix("10.50.0.0/24"))
	c.die(leaves)
	if r := c.ask(first, &ipam.EvictRequest{Peer: c.name(leaves)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(time.Second)

	c.dead = map[int]bool{first: true, other: true}
	c.part(asked, first, other)
	c.part(leaves, first, other)
	meet(asked, leaves)
	c.say(leaves, asked, wire.Beat{}, func(*wire.Header) {})
	c.wait(10 * time.Second)
	if c.status(asked).Pending == 0 {
		t.Fatal("it was not asked")
	}

	c.dead = map[int]bool{asked: true}
	c.part(asked, leaves)
	for _, i := range []int{first, other} {
		meet(i, leaves)
	}
	c.run(time.Minute, in)
	if r := c.ask(leaves, &ipam.LeaveRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.dead = map[int]bool{leaves: true}
	for _, i := range []int{first, other} {
		c.part(i, leaves)
		meet(i, asked)
	}
	c.wait(10 * time.Second)
	if c.peers[first].machine.State().Member(self) != nil {
		t.Error("it is in the cluster again")
	}
}

// A host is cut off, and told to exclude an address and to drain, which is done as soon as the
// others agree, as it says. They evict it. What it was told is decided when it is in the cluster
// again, however long that takes once it is back: before, it would be refused.
func TestEvictedWithOrdersUnderWay(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.die(2)
	for _, q := range []ipam.Request{exclude("10.50.0.250", "10.50.0.250"), &ipam.DrainRequest{Also: true}} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrNotReady, "is done as soon as they agree")
	}
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	lost := false
	c.lose = func(f flight) bool {
		_, joins := f.frame.Body.(wire.Join)
		once := joins && !lost
		lost = lost || joins
		return once
	}
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if s := c.status(2); s.State != ipam.Leaving || s.Pending > 0 {
		t.Errorf("it is %s, and %d of its commands are undecided", s.State, s.Pending)
	}
	wantErr(t, c.ip(0, prefix("10.50.0.0/24"), address("10.50.0.250")), ipam.ErrAddressReserved)
}

// A host that was evicted is back and has not heard of it yet, as it is told to drain: it is not
// said to drain unless it does.
func TestDrainOfOneThatWasEvicted(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	first, last := c.order()[0], c.order()[2]
	c.die(last)
	if r := c.ask(first, &ipam.EvictRequest{Peer: c.name(last)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.heal()
	if r := c.ask(last, &ipam.DrainRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for range 10 {
		if got := c.status(last).State; got != ipam.Leaving {
			t.Errorf("it was told to drain, and is %v", got)
		}
		c.wait(time.Second)
	}
}

// A host that is cut off has told another one, which is cut off with it, what it was told to do.
// That one hears of its eviction first: it does not propose what would be refused.
func TestEvictedWithOrdersAtAnother(t *testing.T) {
	for name, own := range map[string]bool{"in its own space": true, "in nobody's": false} {
		t.Run(name, func(t *testing.T) {
			c := newLockstep(t, 5)
			c.found()
			order := c.order()
			first, with, last := order[0], order[3], order[4]
			excluded, asks := address("10.50.0.250"), first
			if own {
				excluded, asks = c.ask(last, docker(prefix("10.50.0.0/24"))).Address.Address.Addr(), last
				c.stop(last, prefix("10.50.0.0/24"))
			}
			c.lose = func(f flight) bool { return (f.from == with || f.from == last) != (f.to == with || f.to == last) }
			c.part(with, order[:3]...)
			c.part(last, order[:3]...)
			wantErr(t, c.ask(last, exclude(excluded.String(), excluded.String())).Err, ipam.ErrUnreachable, "is done as soon as they agree")
			if r := c.ask(first, &ipam.EvictRequest{Peer: c.name(last)}); r.Err != nil {
				t.Fatal(r.Err)
			}
			c.heal()
			c.lose = func(f flight) bool { return f.from == last || f.to == last }
			c.wait(time.Second)
			c.lose = func(flight) bool { return false }
			c.run(time.Minute, c.agreed)
			c.wait(10 * time.Second)
			wantErr(t, c.ip(asks, prefix("10.50.0.0/24"), excluded), ipam.ErrAddressReserved)
		})
	}
}
