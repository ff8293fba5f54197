package ipam_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// lockstep is a cluster in which every frame takes a millisecond, and nothing
// goes wrong but what a test does: with the same seed the same happens.
type lockstep struct {
	t     testing.TB
	now   time.Time
	peers []*lockstepPeer
	byID  map[peer.ID]int
	queue []flight

	frames int // sent so far
	// lose says whether to lose a frame.
	lose func(f flight) bool
	// dead are peers that hear and are heard by nobody.
	dead map[int]bool
	// crash names the peer that crashes when that frame has arrived, or -1.
	crash func(n int) int
	// states are the digests of the states that any peer was in.
	states map[chapter]uint64
	// forked says that a slot may be decided twice, as a database went back in time.
	forked bool
	// twice says which slot was decided twice, where a test takes a rule away that keeps it from that; nil: that fails the test.
	twice *string
	// former is a peer as it was before its host was installed again.
	former *lockstepPeer
}

// chapter is a slot of a cluster.
type chapter struct {
	cluster [16]byte
	slot    uint64
}

type lockstepPeer struct {
	cfg     ipam.Config
	disk    machinetest.Disk
	machine *ipam.Machine
	wake    time.Time
	starts  uint64
	replies map[uint64]ipam.Reply
	calls   uint64
	asked   []ipam.Note    // what came of its questions
	removed []netip.Prefix // the pools that it was told are gone
	noted   []ipam.Note    // the conflicts that it found
}

// flight is a frame on its way.
type flight struct {
	n, from, to int
	at          time.Time
	frame       *wire.Frame
}

// newLockstep returns n started peers that found a cluster by their list.
func newLockstep(tb testing.TB, n int) *lockstep {
	tb.Helper()
	return newLockstepWith(tb, n, func(*lockstep) {})
}

// onOwnMachines has each peer know the machine that it runs on, for newLockstepWith.
func onOwnMachines(c *lockstep) {
	for i, p := range c.peers {
		p.cfg.Machine = uint64(i + 1)
	}
}

// newLockstepWith is newLockstep with something arranged before the peers
// start.
func newLockstepWith(tb testing.TB, n int, arrange func(*lockstep)) *lockstep {
	tb.Helper()
	c := &lockstep{t: tb, now: machinetest.Start, byID: map[peer.ID]int{}, lose: func(flight) bool { return false }, crash: func(int) int { return -1 }, states: map[chapter]uint64{}}
	for i := range n {
		c.peers = append(c.peers, &lockstepPeer{
			disk: machinetest.Disk{}, replies: map[uint64]ipam.Reply{},
			cfg: ipam.Config{
				Name: peer.Name(fmt.Sprint("host-", i)), Join: true, HostBoot: ipam.HostBoot{ID: "same"},
				Formation: ipam.Formation{Size: n, List: 1, Seat: i + 1},
			},
		})
	}
	arrange(c)
	for i := range c.peers {
		c.start(i)
	}
	for i := range c.peers {
		for j, other := range c.peers {
			if i != j {
				c.step(i, &ipam.Presence{Peer: other.machine.Self(), Alive: true, Seat: j + 1, Name: other.cfg.Name})
			}
		}
	}
	return c
}

// newAwaiting is newLockstep of three peers that wait for what their engines list.
func newAwaiting(tb testing.TB) *lockstep {
	tb.Helper()
	return newLockstepWith(tb, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.AwaitInventory = true
		}
	})
}

// start makes a peer anew from its disk.
func (c *lockstep) start(i int) {
	p := c.peers[i]
	p.starts++
	p.cfg.Rand = rand.New(rand.NewPCG(uint64(i), p.starts))
	m, err := ipam.Restore(p.cfg, p.disk.Load)
	if err != nil {
		c.t.Fatalf("%s: %v", p.cfg.Name, err)
	}
	p.machine = m
	c.step(i, ipam.Tick{})
	c.byID[m.Self()] = i
	for j, other := range c.peers {
		if j != i && other.machine != nil {
			c.step(i, &ipam.Presence{Peer: other.machine.Self(), Alive: true, Seat: j + 1, Name: other.cfg.Name})
		}
	}
}

// mark is the present moment of a peer, for a list that arrives later.
func (c *lockstep) mark(i int) ipam.Mark { return c.peers[i].machine.Mark(c.now) }

// rejoin has an operator have a peer start over, as ringlet rejoin does.
func (c *lockstep) rejoin(i int) {
	c.t.Helper()
	p := c.peers[i]
	remains, err := p.machine.Remains()
	if err != nil {
		c.t.Fatalf("%s: %v", p.cfg.Name, err)
	}
	p.cfg.Remains, p.disk = &remains, machinetest.Disk{}
	c.start(i)
	p.cfg.Remains = nil
	c.heal()
}

func (c *lockstep) step(i int, ev ipam.Event) {
	p := c.peers[i]
	fx := p.machine.Step(c.now, machinetest.Asked(p.machine, c.now, ev))
	p.disk.Commit(fx.Save)
	p.wake = fx.WakeAt
	for _, r := range fx.Reply {
		p.replies[r.Call] = r
	}
	for _, n := range fx.Note {
		switch n.Kind {
		case ipam.NoteAnswered:
			p.asked = append(p.asked, n)
		case ipam.NotePoolDeleted:
			p.removed = append(p.removed, n.Pool)
		case ipam.NoteConflict:
			p.noted = append(p.noted, n)
		default:
		}
	}
	for _, s := range fx.Send {
		f, err := wire.Decode(s.Frame)
		if err != nil {
			c.t.Fatalf("%s sends what nobody can read: %v", p.cfg.Name, err)
		}
		for to := range c.peers {
			if to == i || s.To != peer.None && c.byID[s.To] != to {
				continue
			}
			c.frames++
			out := flight{c.frames, i, to, c.now.Add(time.Millisecond), f}
			if !c.dead[i] && !c.dead[to] && !c.lose(out) {
				c.deliver(out)
			}
		}
	}
	c.compare(i)
}

// deliver has a frame arrive at its time, behind those of the same time.
func (c *lockstep) deliver(f flight) {
	n, _ := slices.BinarySearchFunc(c.queue, f.at, func(other flight, at time.Time) int {
		return cmp.Or(other.at.Compare(at), -1)
	})
	c.queue = slices.Insert(c.queue, n, f)
}

// compare fails the test if a slot has made another state on a peer than on
// those that knew it before.
func (c *lockstep) compare(i int) {
	s := c.peers[i].machine.State()
	at := chapter{s.Cluster, s.Slot}
	known, ok := c.states[at]
	if digest := s.Digest(); !ok {
		c.states[at] = digest
	} else if digest != known && c.twice != nil {
		*c.twice = fmt.Sprintf("I3: slot %d was decided twice", s.Slot)
	} else if digest != known && !c.forked {
		c.t.Fatalf("slot %d was decided twice: %s has made another state of it", s.Slot, c.peers[i].cfg.Name)
	}
}

// run lets time pass until done reports true, and fails the test if it never
// does.
func (c *lockstep) run(limit time.Duration, done func() bool) {
	c.t.Helper()
	for end := c.now.Add(limit); !done(); {
		next := end
		for _, p := range c.peers {
			if !p.wake.IsZero() && p.wake.Before(next) {
				next = p.wake
			}
		}
		if len(c.queue) > 0 && c.queue[0].at.Before(next) {
			next = c.queue[0].at
		}
		if c.now = later(c.now, next); !c.now.Before(end) {
			c.t.Fatalf("not done after %v", limit)
		}
		for len(c.queue) > 0 && !c.queue[0].at.After(c.now) {
			f := c.queue[0]
			c.queue = c.queue[1:]
			c.step(f.to, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
			if i := c.crash(f.n); i >= 0 {
				c.start(i)
			}
		}
		for i, p := range c.peers {
			if !p.wake.IsZero() && !p.wake.After(c.now) {
				p.wake = time.Time{}
				c.step(i, ipam.Tick{})
			}
		}
	}
}

// heal lets everybody hear everybody again.
func (c *lockstep) heal() {
	c.dead = nil
	for i := range c.peers {
		for j, other := range c.peers {
			if i != j {
				c.step(i, &ipam.Presence{Peer: other.machine.Self(), Alive: true})
			}
		}
	}
}

// giveUp has an operator on one host evict another, and forget it.
func (c *lockstep) giveUp(by, lost int) {
	c.t.Helper()
	for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(lost)}, &ipam.ForgetRequest{Peer: c.name(lost)}} {
		if err := c.ask(by, r).Err; err != nil {
			c.t.Fatal(err)
		}
	}
}

// lists brings every peer a list of its engine, that of one with networks.
func (c *lockstep) lists(i int, networks ...ipam.InventoryNetwork) {
	for k := range c.peers {
		inv := &ipam.Inventory{}
		if k == i {
			inv.Networks = networks
		}
		c.call(k, inv)
	}
}

// listed brings every peer a list of its engine, that of one with a network that has the endpoints, once there is a pool.
func (c *lockstep) listed(i int, cidr netip.Prefix, endpoints ...ipam.InventoryEndpoint) {
	var networks []ipam.InventoryNetwork
	if len(c.peers[i].machine.State().Pools) > 0 {
		networks = append(networks, on(cidr.String(), endpoints...))
	}
	c.lists(i, networks...)
}

// comeBack has who was given up hear that it was, and start over.
func (c *lockstep) comeBack(other int) {
	c.t.Helper()
	c.learnsLoss(other)
	for i := range c.peers {
		if c.isSuspended(i) {
			c.rejoin(i)
		}
	}
	c.run(time.Minute, c.agreed)
}

// learnsLoss heals the network, and has another peer have something decided, by which who was given up hears that it was.
func (c *lockstep) learnsLoss(other int) {
	c.t.Helper()
	c.heal()
	c.ask(other, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.99.0.0/24")})
	c.run(time.Minute, func() bool {
		return slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return i < len(c.peers) && c.isSuspended(i) })
	})
}

// isSuspended reports whether a peer says that it is.
func (c *lockstep) isSuspended(i int) bool { return c.status(i).State == ipam.Suspended }

// conflicts returns the addresses about which a peer tells of a conflict, in order.
func (c *lockstep) conflicts(i int) (out []netip.Addr) {
	for _, p := range c.status(i).Problems {
		if p.Code == "conflict" {
			out = append(out, p.Address)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// call has a peer serve a request, and returns the number of the call.
func (c *lockstep) call(i int, r ipam.Request) uint64 {
	p := c.peers[i]
	p.calls++
	c.step(i, &ipam.Call{ID: p.calls, Deadline: c.now.Add(20 * time.Second), Request: r})
	return p.calls
}

// agreed reports whether all peers are in one roster and know the same slot,
// with the same state.
func (c *lockstep) agreed() bool {
	first := c.peers[0].machine.State()
	if len(first.Roster) != len(c.peers) {
		return false
	}
	for _, p := range c.peers {
		if s := p.machine.State(); s.Slot != first.Slot || s.Digest() != first.Digest() {
			return false
		}
	}
	return true
}

// oneCluster fails the test unless all peers are in one cluster with one pool.
func (c *lockstep) oneCluster() {
	c.t.Helper()
	for _, p := range c.peers {
		if s := p.machine.State(); s.Cluster != c.peers[0].machine.State().Cluster {
			c.t.Errorf("%s is in another cluster", p.cfg.Name)
		}
		for _, err := range p.machine.Check(c.now) {
			c.t.Errorf("%s: %v", p.cfg.Name, err)
		}
	}
}

// found runs a cluster from nothing to a pool that two peers ask for at once.
func (c *lockstep) found() {
	c.t.Helper()
	c.run(time.Minute, c.agreed)
	cidr := netip.MustParsePrefix("10.50.0.0/24")
	a := c.call(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
	b := c.call(2, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
	c.run(time.Minute, func() bool {
		for i, call := range map[int]uint64{1: a, 2: b} {
			// A peer that crashed has forgotten the call.
			if _, answered := c.peers[i].replies[call]; !answered && c.peers[i].starts == 1 {
				return false
			}
		}
		return c.agreed() && len(c.peers[0].machine.State().Pools) == 1
	})
	c.oneCluster()
}

// TestEachFrameLostOnce founds a cluster of five and makes a pool, once for
// each frame that this takes, which is then lost: there is one decision for
// each slot, and everybody learns it.
func TestEachFrameLostOnce(t *testing.T) {
	c := newLockstep(t, 5)
	c.found()
	for n := 1; n <= c.frames; n++ {
		d := newLockstep(t, 5)
		d.lose = func(f flight) bool { return f.n == n }
		d.found()
		if t.Failed() {
			t.Fatalf("with frame %d lost", n)
		}
	}
	t.Logf("%d frames, each lost once", c.frames)
}

// TestEachPeerRestartedAtEachStep does the same with every peer crashing and
// starting again after each frame that arrives.
func TestEachPeerRestartedAtEachStep(t *testing.T) {
	whole := newLockstep(t, 5)
	whole.found()
	stride := 1
	if testing.Short() {
		stride = 7
	}
	runs := 0
	for n := 1; n <= whole.frames; n += stride {
		for i := range 5 {
			c := newLockstep(t, 5)
			crashed := false
			c.crash = func(at int) int {
				if at < n || crashed {
					return -1
				}
				crashed = true
				return i
			}
			c.found()
			runs++
			if t.Failed() {
				t.Fatalf("with host-%d crashing after frame %d", i, n)
			}
		}
	}
	t.Logf("%d frames, %d crashes", whole.frames, runs)
}

// TestHundredFoundOneCluster starts a hundred hosts with one list: there is one
// cluster, after a number of frames and a time that stay in bounds.
func TestHundredFoundOneCluster(t *testing.T) {
	if n := 100; n > paxos.MaxFounders {
		t.Fatal("too many")
	}
	c := newLockstep(t, 100)
	c.run(time.Minute, c.agreed)
	c.oneCluster()
	took := c.now.Sub(machinetest.Start)
	t.Logf("100 peers: %d frames, %v", c.frames, took)
	// A hello and its answer for each pair of hosts in each direction, as much
	// again, and what a few ballots take.
	if limit := 5 * 100 * 100; c.frames > limit {
		t.Errorf("%d frames, more than %d", c.frames, limit)
	}
	if took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
