package ipam_test

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// sinceTheCopy returns a cluster one of whose peers has opened space, of which copied
// tells something, and has closed it since; others use it.
func sinceTheCopy(t *testing.T, copied func(*lockstepPeer)) (c *lockstep, i int, cidr netip.Prefix) {
	t.Helper()
	c, cidr = lab(t)
	order := c.order()
	i = order[2]
	for range 75 {
		if r := c.ask(i, docker(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	copied(c.peers[i])
	decided := func() uint64 { m := c.peers[i].machine; return m.State().Number(m.Self()) }
	before := decided()
	c.stop(i, cidr)
	c.wait(20 * time.Minute)
	if decided() == before {
		t.Fatal("nothing of it was decided since the copy")
	}
	for c.full(order[0], cidr) == nil {
	}
	return c, i, cidr
}

// wantOld fails the test unless the peer hands out nothing, since its database is an
// old one, and says what to do.
func (c *lockstep) wantOld(i int, cidr netip.Prefix) {
	c.t.Helper()
	wantErr(c.t, c.ask(i, docker(cidr)).Err, ipam.ErrSuspended, "its database is an old one or a copy")
	if st := c.status(i); st.State != ipam.Suspended || len(st.Problems) == 0 || !strings.Contains(st.Problems[0].Next, "ringlet rejoin") {
		c.t.Errorf("got %s: %v", st.State, st.Problems)
	}
}

// A database that was copied since its last start, and is put back in its own place, by
// hand or with its virtual machine, is not told by its boot. Once it hears what was
// decided it knows that it has forgotten something, and hands out nothing, after
// whatever start.
func TestOldDatabaseOfTheSameStart(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("from a snapshot: ", whole), func(t *testing.T) { testOldDatabase(t, whole) })
	}
}

func testOldDatabase(t *testing.T, whole bool) {
	t.Helper()
	old := map[string][]byte{}
	c, i, cidr := sinceTheCopy(t, func(p *lockstepPeer) { old = maps.Clone(p.disk) })
	c.peers[i].disk = old
	if whole {
		c.forgetSlots(i)
	}
	for range 3 {
		c.start(i)
		c.wantOld(i, cidr)
		c.wait(time.Minute)
	}
	c.check()
	for _, j := range c.order() {
		if st := c.status(j); j != i && st.State != ipam.Ready {
			t.Errorf("%s is %s beside it: %v", c.name(j), st.State, st.Problems)
		}
	}
}

// forgetSlots has all peers but one forget single slots, so that they tell what was
// decided as a whole.
func (c *lockstep) forgetSlots(but int) {
	for j, p := range c.peers {
		if j != but {
			p.cfg = ipam.Remembering(p.cfg, 1)
			c.start(j)
		}
	}
}

// The first of two hosts is needed for each decision: one that it does not know of, and
// has not voted for, shows that its database is an old one.
func TestOldDatabaseOfTheFirstOfTwo(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("from a snapshot: ", whole), func(t *testing.T) {
			c := newLockstep(t, 2)
			c.run(time.Minute, c.agreed)
			first, second := c.order()[0], c.order()[1]
			cidr := prefix("10.71.0.0/24")
			c.works(second, cidr)
			old := maps.Clone(c.peers[first].disk)
			c.works(second, prefix("10.72.0.0/24"))
			c.works(second, prefix("10.73.0.0/24"))
			c.wait(5 * time.Second)
			c.peers[first].disk = old
			if whole {
				c.forgetSlots(first)
			}
			c.start(first)
			c.wait(5 * time.Second)
			c.wantOld(first, cidr)
		})
	}
}

// hearsOfItself tells a peer of a decision that it has asked for, and no longer knows of.
func (c *lockstep) hearsOfItself(i int) {
	m := c.peers[i].machine
	slot := m.State().Slot + 1
	since := chronicle.Command{
		Author: m.Self(), Number: m.State().Number(m.Self()) + 1,
		Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.70.0.0/24")},
	}
	c.say(i, (i+1)%len(c.peers), wire.Decided{First: slot, Values: [][]byte{chronicle.EncodeBatch([]chronicle.Command{since})}}, func(h *wire.Header) { h.Slot = slot })
}

// The same with the memory of the machine, in which nothing starts: it goes on where it
// was, until it hears of what it has asked for since.
func TestOldMemory(t *testing.T) {
	c, cidr := lab(t)
	c.hearsOfItself(2)
	c.wantOld(2, cidr)
}

// aloneAtFirst is a cluster of n peers that the first founded alone, with a pool. Old is its
// database from before the others joined.
func aloneAtFirst(t *testing.T, n int) (c *lockstep, cidr netip.Prefix, old map[string][]byte) {
	t.Helper()
	c = newLockstepWith(t, n, func(c *lockstep) {
		c.dead = map[int]bool{}
		for i, p := range c.peers {
			p.cfg.Join, p.cfg.Formation = i > 0, ipam.Formation{}
			c.dead[i] = i > 0
		}
	})
	cidr = netip.MustParsePrefix("10.71.0.0/24")
	if r := c.ask(0, &ipam.PoolCreation{CIDR: cidr}); r.Err != nil {
		t.Fatal(r.Err)
	}
	old = maps.Clone(c.peers[0].disk)
	c.heal()
	c.run(time.Minute, c.agreed)
	return c, cidr, old
}

// A first host that was alone when its database was copied decides alone again. It hears
// from the one that it has admitted since, that more was decided, or something else.
func TestOldDatabaseOfALoneHost(t *testing.T) {
	for name, more := range map[string]struct {
		decided []string // since it was put back, before the other is heard
		both    bool     // stop handing out
	}{
		"what was decided since":          {},
		"another decision":                {[]string{"10.72.0.0/24"}, true},
		"another decision of a later one": {[]string{"10.72.0.0/24", "10.73.0.0/24"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, cidr, old := aloneAtFirst(t, 2)
			c.die(0)
			c.peers[0].disk = old
			c.start(0)
			for _, other := range more.decided {
				c.forked = true
				if r := c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix(other)}); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			c.heal()
			for range 2 {
				c.say(0, 1, wire.Beat{}, func(*wire.Header) {})
				c.say(1, 0, wire.Beat{}, func(*wire.Header) {})
				c.tick(time.Second, 0, 1)
			}
			wantErr(t, c.ask(0, docker(cidr)).Err, ipam.ErrSuspended)
			if got := c.status(1).State == ipam.Suspended; got != more.both {
				t.Errorf("the other host is %s: %v", c.status(1).State, c.status(1).Problems)
			}
		})
	}
}

// A first host that was alone when its database was copied has left its cluster since. The
// copy is started, decides alone, and then meets the others, who go on.
func TestOldDatabaseOfAHostThatLeft(t *testing.T) {
	c, cidr, old := aloneAtFirst(t, 3)
	if r := c.ask(0, &ipam.LeaveRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(time.Minute)
	for i := 1; i < 3; i++ {
		if s := c.status(i); s.State != ipam.Ready {
			t.Fatalf("%s is %s: %v", c.name(i), s.State, s.Problems)
		}
	}
	c.die(0)
	c.peers[0].disk = old
	c.start(0)
	c.forked = true
	if r := c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.72.0.0/24")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.heal()
	for range 5 {
		c.say(1, 2, wire.Beat{}, func(*wire.Header) {})
		c.say(2, 1, wire.Beat{}, func(*wire.Header) {})
		c.say(0, 1, wire.Beat{}, func(*wire.Header) {})
		c.say(1, 0, wire.Beat{}, func(*wire.Header) {})
		c.say(2, 0, wire.Beat{}, func(*wire.Header) {})
		c.tick(time.Second, 0, 1, 2)
	}
	for i := 1; i < 3; i++ {
		if s := c.status(i); s.State != ipam.Ready {
			t.Errorf("%s, which is with the majority, is %s: %v", c.name(i), s.State, s.Problems)
		}
		if err := c.ask(i, docker(cidr)).Err; err != nil {
			t.Errorf("%s: %v", c.name(i), err)
		}
	}
}

// Host 0 founds a cluster alone; 1 and 2 learn it, each so far, and are not admitted. Host 0
// gives way to host 3's cluster, which is gone before it is learned; so it comes to its own again,
// from host 1, is started anew, and hears more from host 2.
func TestCameToItsOwnClusterAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		c := apartAtFirst(t, 4, 0, 3)
		noJoin := func(a, b int) {
			c.see(a, b)
			pass := c.lose
			c.lose = func(f flight) bool {
				_, join := f.frame.Body.(wire.Join)
				return join || pass(f)
			}
		}
		at := func(i int) uint64 { return c.peers[i].machine.State().Slot }
		learns := func(i, from int) {
			noJoin(i, from)
			c.say(i, from, wire.Beat{}, func(*wire.Header) {})
			c.run(time.Minute, func() bool { return at(i) == at(from) })
			c.apart()
			c.queue = nil
		}
		if r := c.ask(0, &ipam.PoolCreation{CIDR: prefix("10.71.0.0/24")}); r.Err != nil {
			t.Fatal(r.Err)
		}
		learns(1, 0)
		if r := c.ask(0, &ipam.PoolRemoval{Pool: "10.71.0.0/24"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		learns(2, 0)
		c.meets(0, 3)
		c.queue = nil
		learns(0, 1)
		if restarts {
			c.apart()
			c.start(0)
			c.apart()
			c.queue = nil
		}
		noJoin(0, 2)
		c.say(0, 2, wire.Beat{}, func(*wire.Header) {})
		c.tick(3*time.Second, 0, 2)
		if s := c.status(0); s.State == ipam.Suspended {
			t.Errorf("restarts %v: at slot %d it is %s: %v", restarts, at(0), s.State, s.Problems)
		}
	}
}

// Host 0 founds a cluster alone. Host 1 learns it, and is not admitted. Host 0 gives way to host 3's cluster, which is
// gone before it is learned. Host 0 comes to its own cluster again, and admits host 1: with another ID neither
// could ever be in it, and no other one would be founded beside it.
func TestGaveWayAndAdmitsAll(t *testing.T) {
	c := apartAtFirst(t, 4, 0, 3)
	at := func(i int) uint64 { return c.peers[i].machine.State().Slot }
	c.see(1, 0)
	pass := c.lose
	c.lose = func(f flight) bool {
		_, join := f.frame.Body.(wire.Join)
		return join || pass(f)
	}
	c.say(1, 0, wire.Beat{}, func(*wire.Header) {})
	c.run(time.Minute, func() bool { return at(1) == at(0) })
	c.apart()
	c.queue = nil
	c.meets(0, 3)
	if at(0) != 0 {
		t.Fatal("host 0 has not given way")
	}
	c.queue = nil
	c.see(0, 1)
	c.run(time.Minute, func() bool { return len(c.peers[1].machine.State().Roster) == 2 })
}

// A database is put back from before some starts. Who tells it that its start is the latest is a host that
// has just come, and is in no cluster: that is no reason to take the next start for good.
func TestOldDatabaseBesideAStranger(t *testing.T) {
	for _, stranger := range []bool{true, false} {
		c := newThreeAndOne(t, true)
		cidr := prefix("10.50.0.0/24")
		order := c.order()
		old := order[2]
		for _, i := range order[:3] {
			if r := c.ask(i, creation(cidr)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		c.wait(time.Minute)
		copied := maps.Clone(c.peers[old].disk)
		for range 20 {
			if r := c.ask(old, docker(cidr)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		for range 5 {
			c.start(old)
			c.wait(5 * time.Second)
		}
		c.peers[old].disk = copied
		c.forked = true
		if stranger {
			c.lose = between(3, old)
		} else {
			c.lose = func(flight) bool { return true }
		}
		c.start(old)
		c.step(3, &ipam.Presence{Peer: c.peers[old].machine.Self(), Alive: true})
		c.wait(time.Second)
		c.lose = without(3)
		c.wait(10 * time.Second)
		if got := c.status(old).State; got != ipam.Suspended {
			t.Fatalf("stranger %t: it is %v", stranger, got)
		}
		for n := 1; n <= 8; n++ {
			c.start(old)
			c.wait(5 * time.Second)
			r := c.ask(old, docker(cidr))
			if r.Err == nil {
				t.Errorf("stranger %t: the old database hands out %v at start %d", stranger, r.Address.Address, n)
				break
			}
		}
	}
}
