package replog_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/wire"
)

// one is a peer with nothing but a log, a disk and those that it reaches.
type one struct {
	self, boot byte
	all        []*one
	away       bool
	log        *replog.Log
	fx         effect.Out
	out        effect.Writer
	disk       map[string][]byte // by bucket and key
	outcomes   []chronicle.Outcome
}

func (p *one) id() peer.ID { return peer.ID{p.self} }

func (p *one) Live() (live []peer.ID) {
	for _, o := range p.all {
		if !o.away {
			live = append(live, o.id())
		}
	}
	return live
}

func (p *one) IsCutOff() bool                            { return 2*len(p.Live()) <= len(p.all) }
func (p *one) MayFollow() bool                           { return true }
func (p *one) MayVote() bool                             { return true }
func (p *one) Founders() int                             { return len(p.all) }
func (p *one) Formation() wire.Formation                 { return wire.Formation{Size: uint32(len(p.all))} }
func (p *one) MayFound(_ peer.ID, f wire.Formation) bool { return f == p.Formation() }
func (p *one) Seat(id peer.ID) peer.ID                   { return paxos.Seat(int(id[0])) }
func (p *one) Seated(seat peer.ID) peer.ID {
	for _, o := range p.all {
		if p.Seat(o.id()) == seat {
			return o.id()
		}
	}
	return peer.None
}

// start begins a start of the process, from what is on disk.
func (p *one) start() {
	p.boot++
	p.out = effect.NewWriter(&p.fx)
	p.log = replog.New(&p.out, p)
	p.log.Configure(replog.Config{Rand: rand.New(rand.NewPCG(1, uint64(p.self))), Spoken: chronicle.Spoken})
	r := p.log.Restore()
	for _, key := range slices.Sorted(maps.Keys(p.disk)) {
		bucket, key, value := key[:len(replog.Bucket)], key[len(replog.Bucket):], p.disk[key]
		if bucket != replog.Bucket {
			_ = r.Number(value)
		} else if err := r.Visit(key, value); err != nil {
			panic(err)
		}
	}
	if err := r.Finish(p.id()); err != nil {
		panic(err)
	}
	p.log.Begin(p.id(), peer.Boot(p.boot))
}

// step does something at a time, commits it, and returns what it has sent.
func (p *one) step(at time.Time, do func()) (sent []effect.Send) {
	p.out.Reset(at)
	do()
	for d := p.log.Drain(); d != nil; d = p.log.Drain() {
		p.log.Tell(d, p.learn(d.Value))
	}
	p.log.Finish()
	state := p.log.State()
	if p.out.Unposted() {
		p.out.Post(wire.Header{From: p.id(), Boot: peer.Boot(p.boot), Cluster: state.Cluster, Slot: state.Slot})
	}
	for _, r := range p.fx.Save {
		key := fmt.Sprintf("%*s%s", len(replog.Bucket), r.Bucket, r.Key)
		if p.disk[key] = slices.Clone(r.Value); r.Value == nil {
			delete(p.disk, key)
		}
	}
	return slices.Clone(p.fx.Send)
}

// learn takes in the next slot, as a core does.
func (p *one) learn(value []byte) []chronicle.Command {
	batch, _ := p.log.Decode(value)
	p.log.Apply(value, batch, func(o chronicle.Outcome) { p.outcomes = append(p.outcomes, o) })
	p.log.Next()
	return batch
}

func (p *one) take(f *wire.Frame) {
	switch b := f.Body.(type) {
	case wire.Decided:
		for i, v := range b.Values {
			if b.First+uint64(i) == p.log.State().Slot+1 {
				p.learn(v)
			}
		}
	default:
		if d := p.log.Take(f); d != nil {
			p.log.Tell(d, p.learn(d.Value))
		}
	}
	p.log.TakeQueued()
	if f.Slot > p.log.State().Slot {
		p.log.Pull(f.From)
	}
}

// cluster is some logs, and the frames between them.
type cluster struct {
	t    *testing.T
	now  time.Time
	all  []*one
	sent []effect.Send
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, now: time.Unix(1000, 0)}
	for i := range n {
		c.all = append(c.all, &one{self: byte(i + 1), disk: map[string][]byte{}})
	}
	for _, p := range c.all {
		p.all = c.all
		p.start()
	}
	return c
}

// run delivers frames and lets time pass until a condition holds.
func (c *cluster) run(until func() bool) {
	c.t.Helper()
	for range 1000 {
		if until() {
			return
		}
		if len(c.sent) == 0 {
			c.now = c.now.Add(50 * time.Millisecond)
			for _, p := range c.all {
				if !p.away {
					c.sent = append(c.sent, p.step(c.now, p.log.Run)...)
				}
			}
			continue
		}
		s := c.sent[0]
		c.sent = c.sent[1:]
		f, err := wire.Decode(s.Frame)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, p := range c.all {
			if !p.away && p.id() != f.From && (s.To == p.id() || s.To == peer.None) {
				c.sent = append(c.sent, p.step(c.now, func() { p.take(f) })...)
			}
		}
	}
	c.t.Fatal("nothing was decided")
}

// propose has a peer propose something.
func (c *cluster) propose(p *one, a chronicle.Action) {
	actions := []chronicle.Action{a}
	c.sent = append(c.sent, p.step(c.now, func() {
		p.log.Propose(replog.Key(actions), actions, false)
		p.log.Route()
	})...)
}

// at reports whether all that are there stand at a slot.
func (c *cluster) at(slot uint64) func() bool {
	return func() bool {
		return !slices.ContainsFunc(c.all, func(p *one) bool { return !p.away && p.log.State().Slot != slot })
	}
}

// found has the first peer found the cluster of all.
func (c *cluster) found() {
	found := chronicle.Found{Cluster: [16]byte{7}}
	for _, p := range c.all {
		found.Peers = append(found.Peers, chronicle.Founder{ID: p.id(), Name: peer.Name(fmt.Sprintf("host-%d", p.self)), Boot: 1})
	}
	c.propose(c.all[0], found)
	c.run(c.at(1))
}

func pool(n byte) chronicle.CreatePool {
	return chronicle.CreatePool{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, n, 0, 0}), 24)}
}

// Three logs, each with a pool of its own to create, decide all three, in one order.
func TestThreeAgree(t *testing.T) {
	c := newCluster(t, 3)
	c.found()
	for _, p := range c.all {
		c.propose(p, pool(p.self))
	}
	c.run(func() bool {
		return !slices.ContainsFunc(c.all, func(p *one) bool { return len(p.log.State().Pools) < 3 || p.log.IsBusy() })
	})
	for _, p := range c.all[1:] {
		if a, b := c.all[0].log, p.log; a.State().Slot != b.State().Slot || a.Digest() != b.Digest() {
			t.Errorf("peer %d stands at slot %d with digest %x, peer 1 at %d with %x", p.self, b.State().Slot, b.Digest(), a.State().Slot, a.Digest())
		}
	}
	for _, o := range c.all[2].outcomes {
		if o.Refused != "" {
			t.Errorf("%v: %s", o.Command.Action, o.Refused)
		}
	}
}

// A process that ends between its vote and the decision has its vote on disk, and its own command, if that is to be kept. The
// value that a majority has accepted is decided, whoever proposes next.
func TestAVoteOutlivesTheProcess(t *testing.T) {
	c := newCluster(t, 3)
	c.found()
	first, second, third := c.all[0], c.all[1], c.all[2]
	third.away = true
	c.propose(first, pool(1))
	c.run(second.log.HasAccepted) // and nobody knows that it is decided
	c.sent = nil
	first.away, third.away = true, false
	second.start()
	if !second.log.HasAccepted() {
		t.Fatal("the vote is not on disk")
	}
	if !second.log.Accepted(func(a chronicle.Action) bool { return a.String() == pool(1).String() }) {
		t.Error("another value is")
	}
	c.propose(second, pool(2))
	c.run(func() bool { return len(third.log.State().Pools) == 2 })
	for i, p := range third.log.State().Pools {
		if p.CIDR != pool(byte(i+1)).CIDR {
			t.Errorf("pool %d is %v", i, p.CIDR)
		}
	}
}

// A peer that was away gets the slots that it lacks from one that it hears of.
func TestALaggardCatchesUp(t *testing.T) {
	c := newCluster(t, 3)
	c.found()
	c.all[2].away = true
	for n := range byte(5) {
		c.propose(c.all[0], pool(n))
		c.run(c.at(uint64(n) + 2))
	}
	c.all[2].away = false
	c.all[2].start()
	c.propose(c.all[0], pool(9))
	c.run(c.at(7))
	if a, b := c.all[0].log.Digest(), c.all[2].log.Digest(); a != b {
		t.Errorf("digests %x and %x", a, b)
	}
}
