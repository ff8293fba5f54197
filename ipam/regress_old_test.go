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
	wantErr(c.t, c.ask(i, docker(cidr)).Err, ipam.ErrSuspended, "its database is an old one that was put back")
	if st := c.status(i); st.State != ipam.Suspended || len(st.Problems) == 0 || !strings.HasPrefix(st.Problems[0].Next, "remove the plugin's data on this host") {
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
			c := newLockstepWith(t, 2, func(c *lockstep) {
				c.peers[0].cfg.Join, c.peers[0].cfg.Formation = false, ipam.Formation{}
				c.peers[1].cfg.Formation = ipam.Formation{}
				c.dead = map[int]bool{1: true}
			})
			cidr := netip.MustParsePrefix("10.71.0.0/24")
			if r := c.ask(0, &ipam.PoolCreation{CIDR: cidr}); r.Err != nil {
				t.Fatal(r.Err)
			}
			old := maps.Clone(c.peers[0].disk)
			c.heal()
			c.run(time.Minute, c.agreed)
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
