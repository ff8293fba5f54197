package ipam_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Hosts that drain and leave, and are evicted meanwhile.

// A peer is to leave, is cut off before it is decided, and evicted: when it is
// back it leaves, and does not keep its space.
func TestEvictedWhileItLeaves(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.vacate(1, prefix("10.50.0.0/24"))
	c.wait(time.Second)
	c.evictedWhileItLeaves()
	c.wait(time.Hour)
	r := c.ask(1, &ipam.LeaveRequest{})
	if n := c.status(0).Pools[0].Quarantined; n > 0 {
		t.Errorf("it is %s, leave answers %v, and %d addresses are kept back for it", c.status(1).State, r.Err, n)
	}
}

// evictedWhileItLeaves has the second peer be cut off, asked to leave, evicted by the others, and back.
func (c *lockstep) evictedWhileItLeaves() {
	c.t.Helper()
	c.die(1)
	c.call(1, &ipam.LeaveRequest{})
	c.wait(30 * time.Second)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-1"}); r.Err != nil {
		c.t.Fatal(r.Err)
	}
	c.heal()
}

// A peer that has nothing is to leave, is cut off before that is decided, and evicted: what
// it wanted decided is settled when it is back, although it is not in the roster any more,
// and does not have it wake for ever.
func TestLeftWithSomethingUndecided(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	c.evictedWhileItLeaves()
	c.wait(time.Minute)
	if s := c.status(1); s.State != ipam.Left || s.Pending != 0 {
		t.Errorf("it is %s, and %d of its commands are undecided", s.State, s.Pending)
	}
}

// A peer is to drain, and its process ends before that is decided, but not before it has accepted it. Who undoes
// that then is not told that there is nothing to undo, with the draining decided later (seed 2002820 of TestSimBare).
func TestUndrainOfWhatIsUndecided(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.lose = func(flight) bool { return true }
		c.call(i, &ipam.DrainRequest{})
		c.tick(100*time.Millisecond, i)
		c.start(i)
		c.lose = func(flight) bool { return false }
		if r := c.ask(i, &ipam.DrainRequest{Undo: true}); r.Err != nil {
			t.Fatal(r.Err)
		}
		// The next slot begins with what was accepted.
		if r := c.ask(0, &ipam.PoolCreation{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 24)}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.wait(time.Minute)
		p := c.peers[i].machine
		if m := p.State().Member(p.Self()); m.Phase != chronicle.Active {
			t.Errorf("peer %d is %v", i, m.Phase)
		}
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
	c := leaving(t)
	if r := c.ask(1, &ipam.DrainRequest{Undo: true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	stays(t, c, 30*time.Second)
}

// leaving returns a cluster of which the second host is asked to leave.
func leaving(t *testing.T) *lockstep {
	t.Helper()
	c := newLockstep(t, 3)
	c.found()
	c.vacate(1, prefix("10.50.0.0/24"))
	c.wait(time.Second)
	c.call(1, &ipam.LeaveRequest{})
	return c
}

// stays holds that host to be as any other some time after its draining was undone.
func stays(t *testing.T, c *lockstep, after time.Duration) {
	t.Helper()
	c.wait(after)
	if s := c.status(1); s.State != ipam.Ready {
		t.Errorf("draining was undone, and the peer is %s", s.State)
	}
}

// A host that leaves is cut off, and its draining is undone, which is done as soon as the others agree, as it
// says: it stays then.
func TestUndoneWhileItLeavesCutOff(t *testing.T) {
	c := leaving(t)
	p := c.peers[1].machine
	c.run(time.Minute, func() bool { return p.State().Member(p.Self()).Phase == chronicle.Draining })
	c.die(1)
	wantErr(t, c.ask(1, &ipam.DrainRequest{Undo: true}).Err, ipam.ErrNotReady, "is done as soon as they agree")
	c.heal()
	stays(t, c, time.Minute)
}

// A host that leaves has proposed to be retired when it is cut off. Its draining cannot be undone any more: else it would be
// retired all the same, and be suspended as one that was in the cluster before.
func TestUndoneWhileItIsRetired(t *testing.T) {
	c := leaving(t)
	p := c.peers[1].machine
	c.run(time.Minute, func() bool {
		return p.State().Member(p.Self()).Phase == chronicle.Draining && p.State().OwnedBy(p.Self()) == 0
	})
	c.silence(1)
	c.wait(3 * time.Second)
	wantErr(t, c.ask(1, &ipam.DrainRequest{Undo: true}).Err, ipam.ErrNotReady, "the opposite was requested before, and is done as soon as they agree: repeat the command after that")
	c.heal()
	c.wait(time.Minute)
	if s := c.status(1); s.State != ipam.Left {
		t.Errorf("the peer was retired, and is %s", s.State)
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

// A host that drains is evicted, as where it is off for a while: it goes on draining when
// it is back, also if it starts anew meanwhile, until that is undone.
func TestDrainsOnAfterAnEviction(t *testing.T) {
	for name, back := range map[string]func(*lockstep){
		"cut off":    func(*lockstep) {},
		"off":        func(c *lockstep) { c.start(2) },
		"off, twice": func(c *lockstep) { c.start(2); c.wait(100 * time.Millisecond); c.start(2) },
		"off, and again as soon as it is admitted": func(c *lockstep) {
			c.start(2)
			c.run(time.Minute, func() bool { return c.status(2).State == ipam.Joining })
			c.run(time.Minute, func() bool { return c.status(2).State != ipam.Joining })
			c.start(2)
		},
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

// It is lost once more as soon as it is admitted, before that it drains on is decided: it does when it is back.
func TestDrainsOnAfterTwoEvictions(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	for _, q := range []ipam.Request{docker(prefix("10.50.0.0/24")), &ipam.DrainRequest{}} {
		if r := c.ask(2, q); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	phase := func() chronicle.Phase {
		if m := c.peers[2].machine.State().Member(c.peers[2].machine.Self()); m != nil {
			return m.Phase
		}
		return 0
	}
	c.lose = func(f flight) bool { _, submits := f.frame.Body.(wire.Submit); return submits && f.from == 2 }
	for range 2 {
		c.die(2)
		if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.heal()
		c.start(2)
		c.run(time.Minute, func() bool { return phase() == chronicle.Filling })
	}
	c.lose = func(flight) bool { return false }
	c.wait(10 * time.Second)
	if got := phase(); got != chronicle.Draining {
		t.Errorf("it is %v", got)
	}
}

// Who waits for a host to have drained that is evicted meanwhile is not told that this was undone.
func TestDrainsOnAsItSays(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	for _, q := range []ipam.Request{docker(prefix("10.50.0.0/24")), &ipam.DrainRequest{}} {
		if r := c.ask(2, q); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.die(2)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.heal()
	c.start(2)
	for end := c.now.Add(10 * time.Second); c.now.Before(end); c.wait(10 * time.Millisecond) {
		if got := c.status(2).State; got == ipam.Ready {
			t.Fatalf("it drains on, and says that it is %s", got)
		}
	}
}

// A host is cut off, and its operator asks for the opposite of what he has just been told is done as soon as the others agree.
// That goes ahead all the same, so he is told to ask again.
func TestOppositeWhileCutOff(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr, out := prefix("10.50.0.0/24"), prefix("10.60.0.0/24")
	c.network(1, cidr)
	reserve := &ipam.ReserveRequest{First: address("10.50.0.200"), Last: address("10.50.0.220"), Kind: chronicle.KindExcluded}
	c.silence(1)
	for _, both := range [][2]ipam.Request{
		{&ipam.DrainRequest{}, &ipam.DrainRequest{Undo: true}},
		{reserve, &ipam.UnreserveRequest{First: reserve.First, Last: reserve.Last, Kind: reserve.Kind}},
		{&ipam.PoolCreation{CIDR: out}, &ipam.PoolRemoval{Pool: out.String()}},
	} {
		wantErr(t, c.ask(1, both[0]).Err, ipam.ErrNotReady, "your request is done as soon as they agree")
		wantErr(t, c.ask(1, both[1]).Err, ipam.ErrNotReady, "the opposite was requested before, and is done as soon as they agree: repeat the command after that")
	}
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	phase := func() chronicle.Phase { return c.peers[1].machine.State().Member(c.peers[1].machine.Self()).Phase }
	if phase() != chronicle.Draining {
		t.Errorf("it is %v", phase())
	}
	if err := c.ask(1, &ipam.DrainRequest{Undo: true}).Err; err != nil || phase() == chronicle.Draining {
		t.Errorf("it is %v: %v", phase(), err)
	}
}

// The network of a host that drains is removed while its plugin is away, and one like it is made before the engine brings that,
// which then seems to be the end of the only one: the gateway that both had stays until the next list has told.
func TestReleaseIsBroughtToAHostThatDrains(t *testing.T) {
	for _, lives := range []bool{true, false} {
		c, n, had := listedNetwork(t)
		c.wait(time.Minute)
		c.ask(2, &ipam.DrainRequest{})
		c.start(2)
		c.call(2, &ipam.Greeting{})
		if got := c.ownGateway(2, c.makes(2, n.Pool, ipam.PoolRequest{})); got != had {
			t.Fatalf("the gateway is %v, and not %v", got, had)
		}
		c.lists(2)
		c.wait(time.Second)
		c.givesBack(2, n, had)
		c.wait(time.Second)
		wantErr(t, c.ip(0, n.Pool, had), ipam.ErrAddressInUse, "host-2")
		for range 3 {
			if lives {
				c.lists(2, on(n.Pool.String()))
			} else {
				c.lists(2)
			}
			c.wait(30 * time.Second)
		}
		if err := c.ip(0, n.Pool, had); (err != nil) != lives {
			t.Errorf("lists show the network %t: %v", lives, err)
		}
	}
}
