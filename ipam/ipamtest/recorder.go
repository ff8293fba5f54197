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
	if c.w.Recorder == 0 {
		return
	}
	switch wire.TypeOf(l.frame) {
	case wire.Join{}.Type(), wire.Welcome{}.Type():
	default:
		return
	}
	h := &c.strains
	if len(h.recorded) < keptAdmissions {
		h.recorded = append(h.recorded, l)
	} else if h.rnd.IntN(10) == 0 {
		h.recorded[h.rnd.IntN(keptAdmissions)] = l
	}
}

// playBack has the device send messages of long ago again, and have the membership layer believe for seconds that their sender is
// there, as it does where old gossip is sent again.
func (c *cluster) playBack() {
	h := &c.strains
	if c.w.Recorder == 0 {
		return
	}
	c.after(time.Duration(h.rnd.ExpFloat64()*float64(c.w.Recorder)), func() {
		if c.calm {
			return
		}
		c.playBack()
		if c.beginning {
			return
		}
		c.playPasser()
		for range min(len(h.recorded), 10) {
			l := one(h.rnd, h.recorded...)
			c.count["played back"]++
			if f, err := wire.Decode(l.frame); err == nil && h.rnd.IntN(2) == 0 && l.to.machine != nil {
				l.to.believeFor(h.between(time.Second, 10*time.Second), l.from, f.From)
			}
			c.after(h.between(0, 100*time.Millisecond), func() { c.deliver(l.from, l.to, l.id, l.frame) })
		}
	})
}

// playPasser has the device send what a host has said that asked to be admitted, and was taken away before it was.
func (c *cluster) playPasser() {
	h := &c.strains
	from, to := one(h.rnd, c.sites...), one(h.rnd, c.sites...)
	if from == to || to.machine == nil {
		return
	}
	if h.passer == peer.None {
		for i := range h.passer {
			h.passer[i] = byte(h.rnd.Uint64())
		}
	}
	state := c.oracle.state
	header := wire.Header{Cluster: state.Cluster, From: h.passer, To: to.id, Boot: 1, Nonce: 1, Slot: state.Slot, Digest: state.Digest()}
	to.believeFor(h.between(time.Second, 10*time.Second), from, h.passer)
	for i, body := range []wire.Body{wire.Welcome{Name: "passer", Spoken: chronicle.Spoken}, wire.Join{Name: "passer"}} {
		frame := wire.Encode(nil, &wire.Frame{Header: header, Body: body})
		c.after(time.Duration(i)*time.Millisecond, func() { c.deliver(from, to, to.id, frame) })
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
	if id == o.c.strains.passer {
		o.c.fail("S5", "%s is admitted, which was gone before it could be", id.Short())
	}
}
