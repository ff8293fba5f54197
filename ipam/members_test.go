package ipam_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// lab is a cluster of three with one pool, in which each peer holds addresses.
func lab(t *testing.T) (*lockstep, netip.Prefix) {
	t.Helper()
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.50.0.0/24")
	for i := range c.peers {
		for range 5 {
			if r := c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	return c, cidr
}

func local(cidr netip.Prefix) ipam.Network {
	return ipam.Network{Space: ipam.Local, Pool: cidr, Range: cidr}
}

// ask has a peer serve a request, and returns its answer.
func (c *lockstep) ask(i int, r ipam.Request) ipam.Reply {
	c.t.Helper()
	call := c.call(i, r)
	c.run(time.Minute, func() bool { _, ok := c.peers[i].replies[call]; return ok })
	return c.peers[i].replies[call]
}

// die takes peers off for good, and lets the others notice.
func (c *lockstep) die(dead ...int) {
	gone := map[int]bool{}
	for _, i := range dead {
		gone[i] = true
	}
	c.dead = gone
	for i := range c.peers {
		for _, j := range dead {
			if !gone[i] {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
			}
		}
	}
	start := c.now
	c.run(time.Minute, func() bool { return c.now.Sub(start) > 15*time.Second })
}

func refused(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error with %q", err, text)
	}
}

// TestForgetGivesSpaceBack loses a host for good: its space is kept back until
// somebody says that it is gone, and every address of it can be had then.
func TestForgetGivesSpaceBack(t *testing.T) {
	c, cidr := lab(t)
	refused(t, c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err, "is reachable")
	refused(t, c.ask(0, &ipam.EvictRequest{Peer: "host-9"}).Err, "there is no peer host-9")
	refused(t, c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err, "evict it first")
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	quarantined := func() uint64 { return c.peers[0].machine.Status(c.now).Pools[0].Quarantined }
	before := quarantined()
	if before < 5 {
		t.Fatalf("%d addresses are kept back, the host held 5", before)
	}
	// Until then all else can be had, and none of these.
	var err error
	got := uint64(0)
	for err == nil {
		if err = c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}).Err; err == nil {
			got++
		}
	}
	if quarantined() != before {
		t.Errorf("quarantined %d, before %d", quarantined(), before)
	}
	dry := c.ask(1, &ipam.ForgetRequest{Peer: "host-2", DryRun: true})
	if dry.Err != nil || dry.Forgetting.Addresses != before || quarantined() != before {
		t.Fatalf("a dry run says %+v, %v", dry.Forgetting, dry.Err)
	}
	id := c.peers[2].machine.Self().String()
	if r := c.ask(1, &ipam.ForgetRequest{Peer: id[:12]}); r.Err != nil || r.Forgetting.Addresses != before {
		t.Fatalf("%+v, %v", r.Forgetting, r.Err)
	}
	c.run(time.Minute, func() bool { return quarantined() == 0 })
	for n := range before {
		if r := c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil {
			t.Fatalf("address %d of %d: %v", n, before, r.Err)
		}
	}
	for _, i := range []int{0, 1} {
		for _, err := range c.peers[i].machine.Check(c.now) {
			t.Error(err)
		}
	}
}

// A host that had a part of many IPv6 pools had more than 2^64 addresses.
func TestForgetTellsOfIPv6(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	for n := range 8 {
		cidr := netip.MustParsePrefix(fmt.Sprintf("fd00:%x::/64", n+1))
		if err := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Err; err != nil {
			t.Fatal(err)
		}
	}
	lost := c.order()[2]
	c.die(lost)
	at := (lost + 1) % 3
	if err := c.ask(at, &ipam.EvictRequest{Peer: c.name(lost)}).Err; err != nil {
		t.Fatal(err)
	}
	r := c.ask(at, &ipam.ForgetRequest{Peer: c.name(lost), DryRun: true})
	if f := r.Forgetting; r.Err != nil || f.Ranges != 8 || f.Addresses != math.MaxUint64 {
		t.Errorf("%+v, %v", f, r.Err)
	}
}

// TestForgetRefusedWhileHeard has a voter hear from the peer that somebody
// else takes for gone.
func TestForgetRefusedWhileHeard(t *testing.T) {
	c, _ := lab(t)
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	c.step(1, &ipam.Presence{Peer: c.peers[2].machine.Self(), Alive: true})
	refused(t, c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err, "host-1 hears from it")
}

// TestReturnAfterEviction evicts a host that was only cut off: it goes on with
// what it has, is admitted again, and nothing has left it.
func TestReturnAfterEviction(t *testing.T) {
	c, cidr := lab(t)
	held := c.peers[2].machine.Status(c.now).Pools[0].Held
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	// It has not heard of that, and hands out from its own.
	if r := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.heal()
	c.run(time.Minute, c.agreed)
	s := c.peers[2].machine.Status(c.now)
	if s.Pools[0].Held != held+1 || s.Pools[0].Quarantined != 0 || len(s.Peers) != 3 {
		t.Errorf("back with %d held of %d, %d quarantined, %d peers", s.Pools[0].Held, held+1, s.Pools[0].Quarantined, len(s.Peers))
	}
	c.oneCluster()
}

// TestRecover loses two of three for good: the survivor founds its cluster
// anew and can do everything, and keeps back what the others may be using.
func TestRecover(t *testing.T) {
	c, cidr := lab(t)
	refused(t, c.ask(0, &ipam.RecoverRequest{}).Err, "a majority")
	was := c.peers[0].machine.State().Cluster
	c.die(1, 2)
	refused(t, c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")}).Err, "cannot reach")
	if err := c.ask(0, &ipam.RecoverRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	if r := c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	s := c.peers[0].machine.Status(c.now)
	if c.peers[0].machine.State().Cluster == was || s.State != ipam.Alone || s.Pools[0].Quarantined < 10 {
		t.Errorf("state %s, %d quarantined", s.State, s.Pools[0].Quarantined)
	}
	c.start(0)
	if r := c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil {
		t.Errorf("after a restart: %v", r.Err)
	}
	for _, err := range c.peers[0].machine.Check(c.now) {
		t.Error(err)
	}
}

// TestLeave drains a peer and lets it leave: its space is used by the others,
// and it is in no roster.
func TestLeave(t *testing.T) {
	c, cidr := lab(t)
	refused(t, c.ask(2, &ipam.LeaveRequest{}).Err, "still holds 5 addresses")
	list, err := c.peers[2].machine.Addresses(c.now, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.State == "held" {
			c.ask(2, &ipam.AddressRelease{Network: local(cidr), Address: a.Address})
		}
	}
	refused(t, c.ask(2, &ipam.LeaveRequest{}).Err, "network")
	c.ask(2, &ipam.PoolRelease{Network: local(cidr)})
	call := c.call(2, &ipam.LeaveRequest{})
	c.run(20*time.Minute, func() bool { return len(c.peers[0].machine.State().Roster) == 2 })
	if r, ok := c.peers[2].replies[call]; ok && r.Err != nil && ipam.Code(r.Err) != "not-ready" {
		t.Errorf("leave was answered with %v", r.Err)
	}
	if s := c.peers[0].machine.Status(c.now).Pools[0]; s.Quarantined != 0 {
		t.Errorf("%d addresses are kept back for a peer that has left", s.Quarantined)
	}
	if s := c.peers[2].machine.Status(c.now); s.State != ipam.Left {
		t.Errorf("it takes itself for %s", s.State)
	}
	refused(t, c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}).Err, "has left")
	refused(t, c.ask(2, &ipam.ClientRequest{Pool: cidr.String(), ID: "vm"}).Err, "has left")
}

// TestTheDeadAreNotAdmitted has a request to be admitted come from a peer that was
// evicted and is no more: its vote would be missing. When it is there again it asks
// again.
func TestTheDeadAreNotAdmitted(t *testing.T) {
	c, _ := lab(t)
	c.die(2)
	self := c.peers[2].machine.Self()
	in := func() bool { return c.peers[0].machine.State().Member(self) != nil }
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil || in() {
		t.Fatalf("not evicted: %v", err)
	}
	for _, i := range []int{0, 1} {
		c.say(i, 2, wire.Join{Name: "host-2"}, func(*wire.Header) {})
	}
	c.wait(10 * time.Second)
	if in() {
		t.Error("a peer that is no more was admitted")
	}
	c.heal()
	c.wait(10 * time.Second)
	if !in() {
		t.Error("a peer that is back was not admitted")
	}
}

// TestRecordedAdmission sends a recorded Join again, of a peer that is gone, or of one that has left, and whatever that said
// since. The carrier believes the one that is gone to be there, as old gossip may have it do.
func TestRecordedAdmission(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		c, cidr := lab(t)
		self := c.peers[2].machine.Self()
		in := func() bool { return c.peers[0].machine.State().Member(self) != nil }
		join := wire.Join{Name: "host-2"}
		var answers []flight
		c.lose = func(f flight) bool {
			if _, answer := f.frame.Body.(wire.Welcome); answer && f.from == 2 {
				answers = append(answers, f)
			}
			return false
		}
		c.start(2) // says hello, and answers
		c.run(time.Minute, c.agreed)
		if leaves {
			c.stop(2, cidr)
			c.call(2, &ipam.LeaveRequest{Force: true})
		} else {
			c.die(2)
			c.call(0, &ipam.EvictRequest{Peer: "host-2"})
		}
		c.run(time.Minute, func() bool { return !in() })
		c.wait(10 * time.Second)
		slots, recorded := c.peers[0].machine.State().Slot, len(answers)
		for range 30 {
			for i := range 2 {
				c.step(i, &ipam.Presence{Peer: self, Alive: true, Name: "host-2"})
				c.say(i, 2, join, func(*wire.Header) {})
				for _, f := range answers[:recorded] {
					if f.to == i {
						c.step(i, &ipam.Message{Frame: f.frame, Seat: 3})
					}
				}
			}
			c.wait(time.Second)
		}
		if in() || c.peers[0].machine.State().Slot != slots {
			t.Errorf("leaves %t: it is in the roster: %t; slots %d to %d", leaves, in(), slots, c.peers[0].machine.State().Slot)
		}
		if !leaves {
			c.heal()
			c.run(time.Minute, in) // by itself
		}
	}
}

// TestForgetIsReconsidered has the peer come back while the others could not
// agree yet to forget it: by the time they can, nobody wants that any more.
func TestForgetIsReconsidered(t *testing.T) {
	c, _ := lab(t)
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	lost := c.peers[2].machine.Self()
	if r := c.ask(0, &ipam.ForgetRequest{Peer: "host-2", DryRun: true}); r.Err != nil {
		t.Fatal(r.Err) // from now on it is known that nobody hears from it
	}
	c.silence(1, 2)
	c.call(0, &ipam.ForgetRequest{Peer: "host-2"})
	c.wait(2 * time.Second)
	c.step(0, &ipam.Presence{Peer: lost, Alive: true})
	c.wait(2 * time.Second)
	c.silence(2)
	c.wait(10 * time.Second)
	if g := c.peers[0].machine.State().Gone(lost); g == nil || g.Forgotten {
		t.Errorf("it is %+v", g)
	}
}

// TestCopyAndOriginalStop starts a copy of a database beside its original,
// which goes on running. Others refuse the original, whose start is older, and
// its answer proves to the copy that it lives: both stop.
func TestCopyAndOriginalStop(t *testing.T) {
	c, _ := lab(t)
	original := c.peers[2]
	twin := &lockstepPeer{cfg: original.cfg, disk: maps.Clone(original.disk), replies: map[uint64]ipam.Reply{}}
	c.peers[2] = twin
	c.start(2) // from now on frames for this ID reach the copy
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	if s := c.status(2); s.State != ipam.Ready {
		t.Fatalf("the copy is %s", s.State)
	}
	// The original sends something; the answer reaches it, and its answer the
	// others.
	c.peers[2] = original
	c.step(2, &ipam.Presence{Peer: c.peers[0].machine.Self(), Alive: true})
	c.call(2, &ipam.PoolCreation{CIDR: prefix("10.77.0.0/24")})
	c.run(time.Minute, func() bool { return c.status(2).State == ipam.Suspended })
	c.wait(time.Millisecond)
	c.peers[2] = twin
	c.run(time.Minute, func() bool { return c.status(2).State == ipam.Suspended })
	// The copy is removed, and the original started anew.
	c.peers[2] = original
	c.start(2)
	c.run(time.Minute, func() bool { return c.status(2).State == ipam.Ready })
	c.wait(5 * time.Second)
	if s := c.status(2); s.State != ipam.Ready {
		t.Errorf("the original is %s: %v", s.State, s.Problems)
	}
}

// TestOldDatabaseStaysRefused starts a database that was put back once more: a
// start does not make it any newer.
func TestOldDatabaseStaysRefused(t *testing.T) {
	c, _ := lab(t)
	old := maps.Clone(c.peers[2].disk)
	for range 3 {
		c.start(2)
		c.run(time.Minute, c.agreed)
		c.wait(5 * time.Second)
	}
	c.peers[2].disk = old
	for range 2 {
		c.start(2)
		c.wait(5 * time.Second)
		if s := c.status(2); s.State != ipam.Suspended {
			t.Errorf("it is %s", s.State)
		}
	}
}

// TestRecoverEvicted loses all that are in the roster, while one that they had
// evicted lives: it goes on with what it has.
func TestRecoverEvicted(t *testing.T) {
	c, cidr := lab(t)
	held := c.peers[2].machine.Status(c.now).Pools[0].HeldHere
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	c.dead = map[int]bool{}
	c.run(time.Minute, func() bool { return c.peers[2].machine.State().Member(c.peers[2].machine.Self()) == nil })
	c.die(0, 1)
	if err := c.ask(2, &ipam.RecoverRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	if r := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if s := c.peers[2].machine.Status(c.now); s.State != ipam.Alone || s.Pools[0].HeldHere != held+1 {
		t.Errorf("it is %s and holds %d addresses, before %d", s.State, s.Pools[0].HeldHere, held)
	}
}

// A request to be admitted that a host made before it left, and that is late, brings nobody back, and costs no slot: its
// ID is used up, or it was evicted after it asked.
func TestLateJoinOfAHostThatLeft(t *testing.T) {
	for _, force := range []bool{true, false} {
		c, cidr := lab(t)
		gateway := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForGateway}).Address.Address.Addr()
		self := c.peers[2].machine.Self()
		if !force {
			for i := range c.peers {
				c.vacate(i, cidr)
			}
		}
		c.stop(2, cidr)
		c.call(2, &ipam.LeaveRequest{Force: force})
		c.run(20*time.Minute, func() bool { return c.status(2).State == ipam.Left })
		c.wait(time.Minute)
		slot := c.peers[0].machine.State().Slot
		for range 20 {
			c.say(0, 2, wire.Join{Name: "host-2"}, func(h *wire.Header) { h.Slot, h.Digest = 1, 0 })
			c.wait(time.Second)
		}
		if s := c.peers[0].machine.State(); s.Member(self) != nil || s.Slot != slot {
			t.Errorf("by force %t: it is in the roster: %t, after %d slots", force, s.Member(self) != nil, s.Slot-slot)
		}
		if s := c.status(2).State; s != ipam.Left {
			t.Errorf("by force %t: it is %s", force, s)
		}
		if err := c.ip(0, cidr, gateway); force && !errors.Is(err, ipam.ErrAddressInUse) {
			t.Errorf("another host gets its gateway: %v", err)
		}
	}
}

// The database of a host that has left is put back from before it noted that. It asks to be admitted, hears that its ID is used
// up, and is suspended: no slot is spent on it.
func TestUsedUpID(t *testing.T) {
	c, cidr := lab(t)
	for i := range c.peers {
		c.vacate(i, cidr)
	}
	c.call(2, &ipam.LeaveRequest{})
	c.run(20*time.Minute, func() bool { return c.status(2).State == ipam.Left })
	for k := range c.peers[2].disk {
		if strings.HasPrefix(k, "identity") && strings.HasSuffix(k, "left") {
			delete(c.peers[2].disk, k)
		}
	}
	c.start(2)
	c.heal()
	c.run(time.Minute, func() bool { return c.isSuspended(2) })
	c.wait(2 * time.Minute)
	slot := c.peers[0].machine.State().Slot
	for range 20 {
		c.say(0, 2, wire.Join{Name: "host-2"}, func(*wire.Header) {})
		c.wait(time.Second)
	}
	if now := c.peers[0].machine.State().Slot; now != slot {
		t.Errorf("%d slots were spent on it", now-slot)
	}
	if next := c.status(2).Problems[0].Next; !strings.Contains(next, "ringlet rejoin") {
		t.Errorf("the next step is %q", next)
	}
	c.rejoin(2)
	c.run(time.Minute, c.agreed)
}
