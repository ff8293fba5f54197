package ipamtest

import (
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// keptAdmissions is how many messages about admissions the device keeps.
const keptAdmissions = 100

// record has the device keep a message, if it is about the admission of a peer.
func (c *cluster) record(l letter) {
	if t := wire.TypeOf(l.frame); c.w.Recorder == 0 || t != (wire.Join{}).Type() && t != (wire.Welcome{}).Type() {
		return
	}
	if len(c.recorded) < keptAdmissions {
		c.recorded = append(c.recorded, l)
	} else if c.rnd.IntN(10) == 0 {
		c.recorded[c.rnd.IntN(keptAdmissions)] = l
	}
}

// playBack has the device send messages of long ago again, and have the membership layer believe for seconds that their sender is
// there, as it does where old gossip is sent again.
func (c *cluster) playBack() {
	if c.beginning {
		return
	}
	c.playPasser()
	for range min(len(c.recorded), 10) {
		l := one(c.rnd, c.recorded...)
		if f, err := wire.Decode(l.frame); err == nil && c.rnd.IntN(2) == 0 && l.to.machine != nil {
			l.to.believeFor(c.between(time.Second, 10*time.Second), l.from, f.From)
		}
		c.after(c.between(0, 100*time.Millisecond), func() { c.deliver(l) })
	}
}

// playPasser has the device send what a host has said that asked to be admitted, and was taken away before it was.
func (c *cluster) playPasser() {
	from, to := one(c.rnd, c.sites...), one(c.rnd, c.sites...)
	if from == to || to.machine == nil {
		return
	}
	if c.passer == peer.None {
		for i := range c.passer {
			c.passer[i] = byte(c.rnd.Uint64())
		}
	}
	state := c.oracle.state
	header := wire.Header{Cluster: state.Cluster, From: c.passer, To: to.id, Boot: 1, Nonce: 1, Slot: state.Slot, Digest: state.Digest()}
	to.believeFor(c.between(time.Second, 10*time.Second), from, c.passer)
	for i, body := range []wire.Body{wire.Welcome{Name: "passer", Spoken: chronicle.Spoken}, wire.Join{Name: "passer"}} {
		frame := wire.Encode(nil, &wire.Frame{Header: header, Body: body})
		c.after(time.Duration(i)*time.Millisecond, func() { c.deliver(letter{from, to, to.id, frame}) })
	}
}

// believeFor has a host believe for a while that a peer is there.
func (s *site) believeFor(d time.Duration, t *site, id peer.ID) {
	there := func() bool { b := s.believed[t.index]; return b.id == id && b.alive }
	if there() {
		return
	}
	end := s.bound(func() { // it may end here
		if !there() {
			s.believe(t, id, false)
		}
	})
	s.believe(t, id, true)
	s.c.after(d, end)
}

// admitted looks whether the peer is admitted that was gone before it could be. It would have a vote. Of others that are gone
// nobody can tell: a host may have asked for their admission while they were there, and the others agree to it late.
func (o *oracle) admitted(id peer.ID) {
	if id == o.c.passer {
		o.c.fail("S5", "%s is admitted, which was gone before it could be", id.Short())
	}
}
