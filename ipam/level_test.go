package ipam_test

import (
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// newer is what a later release speaks.
const newer = chronicle.Spoken + 1

// upgrade starts a peer anew from its disk with a release that speaks a level.
func (c *lockstep) upgrade(i int, spoken chronicle.Level) {
	c.peers[i].cfg.Spoken = spoken
	c.start(i)
}

// level returns the level of the peers that live, 0 if they are not at one.
func (c *lockstep) level() chronicle.Level {
	living := c.living()
	level := c.peers[living[0]].machine.State().Level
	for _, i := range living {
		if c.peers[i].machine.State().Level != level {
			return 0
		}
	}
	return level
}

// works fails the test unless the peer can have something decided, and can hand
// out an address.
func (c *lockstep) works(i int, cidr netip.Prefix) {
	c.t.Helper()
	if r := c.ask(i, &ipam.PoolCreation{CIDR: cidr}); r.Err != nil {
		c.t.Fatalf("%s: %v", c.name(i), r.Err)
	}
	if r := c.ask(i, &ipam.ClientRequest{Pool: cidr.String(), ID: "someone on " + c.name(i)}); r.Err != nil {
		c.t.Fatalf("%s: %v", c.name(i), r.Err)
	}
}

// holds returns how many addresses a peer holds in a pool.
func (c *lockstep) holds(i int, cidr netip.Prefix) uint64 {
	for _, p := range c.status(i).Pools {
		if p.Pool == cidr {
			return p.HeldHere
		}
	}
	return 0
}

// Hosts that are upgraded one after the other work together all the while, at
// the level of the oldest, and go on to the next when the last has it. Every
// address stays.
func TestUpgradeOneAfterTheOther(t *testing.T) {
	c, cidr := lab(t)
	for n, i := range c.order() { // the voter that would raise the level is the first
		c.upgrade(i, newer)
		c.wait(10 * time.Second)
		want := chronicle.Spoken
		if n == len(c.peers)-1 {
			want = newer
		}
		if got := c.level(); got != want {
			t.Errorf("%d hosts upgraded: the level is %d, want %d", n+1, got, want)
		}
		for j := range c.peers {
			c.works(j, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(3*n + j), 0}), 24))
			if n := c.holds(j, cidr); n != 5 {
				t.Errorf("%s holds %d addresses, want 5", c.name(j), n)
			}
		}
	}
	for i := range c.peers {
		if s := c.status(i); s.Verdict != ipam.Fine || s.Level != uint64(newer) || s.Self.Speaks != uint64(newer) {
			t.Errorf("%s: %s, level %d, speaks %d: %+v", c.name(i), s.Verdict, s.Level, s.Self.Speaks, s.Problems)
		}
	}
	c.oneCluster()
}

// A voter has accepted a slot that evicts it, has not heard yet that it is decided,
// and decides it itself, as it alone is needed for that, when it has something to
// propose: that it is evicted is no news to die of.
func TestEvictedAsItRaisesTheLevel(t *testing.T) {
	c := newLockstepWith(t, 2, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.BootAlone = true
			p.cfg.Machine = 7 // each takes the other for its former self, once it hears nothing of it, and never did
		}
	})
	c.run(time.Minute, c.agreed)
	a, b := c.order()[0], c.order()[1]
	c.upgrade(a, newer)
	c.wait(10 * time.Second)
	evicts := false
	c.lose = func(f flight) bool {
		_, prepare := f.frame.Body.(wire.Prepare)
		evicts = evicts || f.from == b && prepare
		return true
	}
	maps.DeleteFunc(c.peers[b].disk, func(k string, _ []byte) bool { return strings.HasPrefix(k, "peer") })
	c.upgrade(b, newer)
	c.step(b, &ipam.Presence{Peer: c.peers[a].machine.Self()})
	c.run(time.Minute, func() bool { return evicts })
	decided := false
	c.lose = func(f flight) bool {
		_, tells := f.frame.Body.(wire.Decided)
		decided = decided || f.from == b && tells
		return f.from == b && tells
	}
	c.run(time.Second, func() bool { return decided })
	if c.peers[a].machine.State().Member(c.peers[a].machine.Self()) == nil {
		t.Fatal("it knows already")
	}
	c.run(5*time.Second, func() bool { return c.peers[a].machine.State().Member(c.peers[a].machine.Self()) == nil })
	c.lose = func(flight) bool { return false }
	c.heal()
	c.run(time.Minute, func() bool { return c.level() == newer && c.agreed() })
	c.oneCluster()
}

// behind returns a cluster at level 2 with a host that was evicted before and
// has come back with a release that speaks level 1.
func behind(t *testing.T) (c *lockstep, old int, others []int, cidr netip.Prefix) {
	t.Helper()
	c, cidr = lab(t)
	old = c.order()[2]
	c.die(old)
	others = c.living()
	if r := c.ask(others[0], &ipam.EvictRequest{Peer: c.name(old)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, i := range others {
		c.upgrade(i, newer)
		c.step(i, &ipam.Presence{Peer: c.peers[old].machine.Self()})
	}
	c.run(time.Minute, func() bool { return c.level() == newer })
	c.works(others[0], netip.MustParsePrefix("10.61.0.0/24"))
	c.heal()
	c.start(old)
	c.wait(10 * time.Second)
	return c, old, others, cidr
}

// A host with an older release than its cluster uses hands out nothing, since it
// cannot know what is still its own, loses nothing, takes back what is released,
// and says what to do; once it is upgraded it goes on.
func TestHostIsOlderThanItsCluster(t *testing.T) {
	c, old, others, cidr := behind(t)
	s := c.status(old)
	if s.State != ipam.Outdated || s.Verdict != ipam.Failed || s.Level != uint64(newer) || s.Self.Speaks != uint64(chronicle.Spoken) {
		t.Errorf("it is %s, %s at level %d and speaks %d: %+v", s.State, s.Verdict, s.Level, s.Self.Speaks, s.Problems)
	}
	for what, r := range map[string]ipam.Request{
		"an address": &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}, "a pool": &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.62.0.0/24")},
		"recovery": &ipam.RecoverRequest{},
	} {
		if err := c.ask(old, r).Err; !errors.Is(err, ipam.ErrNotReady) || !strings.Contains(err.Error(), "upgrade ringlet on this host") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r := c.ask(old, &ipam.AddressRelease{Network: local(cidr), Address: c.heldBy(old)}); r.Err != nil {
		t.Errorf("a release: %v", r.Err)
	}
	if n := c.holds(old, cidr); n != 4 {
		t.Errorf("it holds %d addresses, want 4", n)
	}
	if level := c.peers[old].machine.State().Level; level != newer {
		t.Errorf("it stands at level %d, want the slot of the raise", level)
	}
	slot := c.peers[old].machine.State().Slot
	c.works(others[0], netip.MustParsePrefix("10.63.0.0/24"))
	c.wait(10 * time.Second)
	if c.peers[old].machine.State().Slot != slot {
		t.Error("it learns slots of a level that it does not speak")
	}
	for _, i := range others {
		if c.peers[i].machine.State().Member(c.peers[old].machine.Self()) != nil {
			t.Errorf("%s has admitted a host that cannot follow", c.name(i))
		}
	}
	c.start(old) // it may start again as often as it likes
	c.wait(10 * time.Second)
	if s := c.status(old); s.State != ipam.Outdated {
		t.Errorf("started again it is %s", s.State)
	}
	c.upgrade(old, newer)
	c.run(time.Minute, c.agreed)
	c.works(old, netip.MustParsePrefix("10.62.0.0/24"))
	if n := c.holds(old, cidr); n != 4 {
		t.Errorf("after its upgrade it holds %d addresses, want 4", n)
	}
	c.oneCluster()
}

// A host that was given up while it was off, and comes back with an older
// release than the cluster uses by then, hands out nothing of what others have.
func TestForgottenHostIsOlder(t *testing.T) {
	for _, early := range []bool{false, true} {
		c, cidr := lab(t)
		old := c.order()[2]
		c.die(old)
		others := c.living()
		ask := func(r ipam.Request) {
			t.Helper()
			if err := c.ask(others[0], r).Err; err != nil {
				t.Fatal(err)
			}
		}
		ask(&ipam.EvictRequest{Peer: c.name(old)})
		if early {
			ask(&ipam.ForgetRequest{Peer: c.name(old)})
		}
		for _, i := range others {
			c.upgrade(i, newer)
			c.step(i, &ipam.Presence{Peer: c.peers[old].machine.Self()})
		}
		c.run(time.Minute, func() bool { return c.level() == newer })
		if !early {
			ask(&ipam.ForgetRequest{Peer: c.name(old)})
		}
		for i := range 20 {
			ask(&ipam.PoolCreation{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 70, byte(i), 0}), 24)})
		}
		c.full(others[0], cidr)
		c.heal()
		c.peers[old].cfg.HostBoot.ID = "another"
		c.start(old)
		for range 30 {
			if r := c.ask(old, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err == nil {
				t.Fatalf("forgotten before the level rose: %v; it hands out %v", early, r.Address.Address)
			}
			c.wait(time.Second)
		}
		if s := c.status(old); s.State != ipam.Suspended { // others tell it that its ID is used up
			t.Errorf("it is %s: %+v", s.State, s.Problems)
		}
	}
}

// A peer that would join takes no cluster's level for that of another, and what
// others only say of levels keeps nobody from anything.
func TestLevelIsNoHearsay(t *testing.T) {
	c, cidr := lab(t)
	c.say(0, 1, wire.Hello{Name: "host-1", Spoken: 9}, func(*wire.Header) {})
	c.say(0, 1, wire.Snapshot{State: foreignState(9)}, func(h *wire.Header) { h.Slot += 100; h.Digest++ })
	if s := c.status(0); s.State != ipam.Ready {
		t.Errorf("it is %s: %+v", s.State, s.Problems)
	}
	if r := c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil {
		t.Error(r.Err)
	}
}

// foreignState is a state of another cluster at that level, of a format that
// nobody knows.
func foreignState(level chronicle.Level) []byte {
	s := &chronicle.State{Slot: 1000, Cluster: [16]byte{7}, Level: level}
	b := s.Encode()
	b[0] = 200
	return b
}

// A new host with an older release than the cluster uses is not admitted, and
// both it and the others say so.
func TestNewHostIsOlder(t *testing.T) {
	c, old, others, cidr := behind(t)
	c.reinstall(old, func(cfg *ipam.Config) { cfg.Formation, cfg.Join = ipam.Formation{}, true })
	c.heal()
	c.wait(10 * time.Second)
	if s := c.status(old); s.State != ipam.Outdated || s.Verdict != ipam.Failed {
		t.Errorf("it is %s, %s: %+v", s.State, s.Verdict, s.Problems)
	}
	for _, i := range others {
		c.say(i, old, wire.Join{Name: "host-old"}, func(h *wire.Header) { h.Cluster, h.Slot, h.Digest = c.peers[i].machine.State().Cluster, 0, 0 })
	}
	c.wait(10 * time.Second)
	if n := len(c.peers[others[0]].machine.State().Roster); n != 2 {
		t.Errorf("the roster has %d peers, want 2", n)
	}
	r := c.ask(old, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer})
	if !errors.Is(r.Err, ipam.ErrNotReady) || !strings.Contains(r.Err.Error(), "upgrade ringlet on this host") {
		t.Errorf("an address: %v", r.Err)
	}
}

// A database that a later release has used is refused by this one, and is as it
// was: the later release opens it again.
func TestDowngrade(t *testing.T) {
	c, _ := lab(t)
	for i := range c.peers {
		c.upgrade(i, newer)
	}
	c.run(time.Minute, func() bool { return c.level() == newer })
	c.works(0, netip.MustParsePrefix("10.62.0.0/24"))
	c.wait(10 * time.Second)
	p := c.peers[1]
	p.cfg.Spoken = chronicle.Spoken
	if _, err := ipam.Restore(p.cfg, p.disk.Load); !errors.Is(err, ipam.ErrForeign) || !strings.Contains(err.Error(), "install that release again") {
		t.Errorf("the older release: %v", err)
	}
	c.upgrade(1, newer)
	c.works(1, netip.MustParsePrefix("10.63.0.0/24"))
	c.oneCluster()
}

// A slot with a command that this release does not know is not applied, nor any
// behind it: others would have another state.
func TestSlotOfALaterRelease(t *testing.T) {
	c, cidr := lab(t)
	state := c.peers[0].machine.State()
	later := chronicle.EncodeBatch([]chronicle.Command{{Author: c.peers[1].machine.Self(), Number: 1000, Action: chronicle.Unknown{Op: 200, Body: []byte{1, 2}}}})
	slot, digest := state.Slot, state.Digest()
	c.say(0, 1, wire.Decided{First: slot + 1, Values: [][]byte{later, chronicle.EncodeBatch(nil)}}, func(h *wire.Header) { h.Slot += 2; h.Digest++ })
	if now := c.peers[0].machine.State(); now.Slot != slot || now.Digest() != digest {
		t.Errorf("slot %d was followed by slot %d", slot, now.Slot)
	}
	if s := c.status(0); s.State != ipam.Outdated {
		t.Errorf("it is %s: %+v", s.State, s.Problems)
	}
	if r := c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); !errors.Is(r.Err, ipam.ErrNotReady) {
		t.Errorf("an address: %v", r.Err)
	}
}

// A host of an earlier release could follow neither label sets nor locks. As long as one is there the others ask for none, and
// all of them hand out addresses. Once it is upgraded they get them.
func TestNoLocksBesideAnEarlierRelease(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) { c.peers[1].cfg.Spoken = chronicle.WithLocks - 1 })
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if got := c.level(); got != chronicle.WithLocks-1 {
		t.Fatalf("the level is %d", got)
	}
	wantErr(t, c.ask(0, wantLock("backup", 1)).Err, ipam.ErrNotReady, "not all hosts of the cluster run this release yet: upgrade the others, and see ringlet peers")
	wantErr(t, c.ask(2, &ipam.IdentityRequest{Labels: []string{"app=web"}}).Err, ipam.ErrNotReady, "not all hosts of the cluster run this release yet")
	for i := range c.peers {
		c.works(i, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(i), 0}), 24))
	}
	c.upgrade(1, chronicle.Spoken)
	c.wait(10 * time.Second)
	if r := c.ask(0, wantLock("backup", 1)); r.Err != nil {
		t.Error(r.Err)
	}
	if r := c.ask(1, &ipam.IdentityRequest{Labels: []string{"app=web"}}); r.Err != nil {
		t.Error(r.Err)
	}
}
