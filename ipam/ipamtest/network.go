package ipamtest

import (
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// send puts a message on its way. Messages go to hosts: one that was meant for a peer whose database is lost since comes to its
// successor.
func (s *site) send(m ipam.Send) {
	c := s.c
	frame := append([]byte{}, m.Frame...)
	for i, b := range s.believed {
		if b.id != peer.None && (b.id == m.To || m.To == peer.None && i != s.index) {
			c.carry(letter{s, c.sites[i], b.id, frame})
		}
	}
}

// letter is a message that was sent.
type letter struct {
	from, to *site
	id       peer.ID
	frame    []byte
}

// keptLetters is how many messages are kept to arrive again long after.
const keptLetters = 200

// haunt has some of the messages that are kept arrive once more.
func (c *cluster) haunt() {
	for range min(len(c.past), 20) {
		l := one(c.rnd, c.past...)
		c.after(c.delay(), func() { c.deliver(l) })
	}
}

// carry takes a frame from host to host: late, twice or not at all.
func (c *cluster) carry(l letter) {
	c.record(l)
	if len(c.past) < keptLetters {
		c.past = append(c.past, l)
	} else if c.rnd.IntN(20) == 0 {
		c.past[c.rnd.IntN(keptLetters)] = l
	}
	for {
		if !c.chance(c.w.Loss) || c.calm || c.beginning {
			collapses := c.collapses
			c.after(c.delay(), func() {
				if c.collapses == collapses {
					c.deliver(l)
				}
			})
		}
		if c.calm || !c.chance(c.w.Repeat) {
			return
		}
	}
}

// delay draws how long a message takes.
func (c *cluster) delay() time.Duration {
	d := c.between(c.w.Latency/10, c.w.Latency)
	if !c.calm && c.chance(c.w.Slow) {
		d += c.about(time.Duration(1+c.rnd.IntN(100)) * 200 * time.Millisecond)
	}
	return d
}

// reaches reports whether what one host sends gets to the other.
func (c *cluster) reaches(from, to *site) bool {
	return !c.cut[[2]*site{from, to}] && from.offline <= c.now && to.offline <= c.now
}

func (c *cluster) deliver(l letter) {
	from, to := l.from, l.to
	if !c.reaches(from, to) || to.machine == nil || l.id != to.id && !c.w.Astray {
		return
	}
	f, err := wire.Decode(l.frame)
	if err != nil {
		c.fail("wire", "%s sent what cannot be read: %v", from, err)
		return
	}
	if a := to.absent; a != nil {
		if a.frames--; a.frames < 0 {
			return
		}
	}
	to.awake(&ipam.Message{Frame: f, Seat: from.seat})
}

// probe is the membership layer's: each host looks after another one now and then, tells its machine whom it believes to be alive,
// and brings home the beat of the host that answered.
func (s *site) probe() {
	c := s.c
	s.after(c.between(c.w.Probe/2, c.w.Probe*3/2), s.probe)
	if len(c.sites) == 1 || s.stopped > c.now {
		return
	}
	// In turn, so that none is left out for long.
	s.turn = (s.turn + 1) % len(c.sites)
	if s.turn == s.index {
		s.turn = (s.turn + 1) % len(c.sites)
	}
	i := s.turn
	// A host that is not known yet is heard of soon.
	for j, b := range s.believed {
		if j != s.index && b.id == peer.None && c.sites[j].machine != nil && c.rnd.IntN(2) == 0 {
			i = j
		}
	}
	t := c.sites[i]
	answers := t.machine != nil && t.stopped <= c.now && c.reaches(s, t) && c.reaches(t, s)
	if !c.calm && !c.beginning && c.chance(c.w.Suspect) {
		answers = false
	}
	b := &s.believed[i]
	if !answers {
		if b.alive && (c.calm || c.rnd.IntN(3) == 0) {
			b.alive = false
			s.believe(t, b.id, false)
		}
		return
	}
	if b.id != t.id && b.id != peer.None {
		if b.alive {
			s.believe(t, b.id, false)
		}
		*b = belief{}
	}
	if !b.alive {
		*b = belief{t.id, true}
		s.believe(t, t.id, true)
		if c.beginning {
			s.hearOfAll(t)
			t.hearOfAll(s)
		}
	}
	if t.beat != nil && s.machine != nil {
		l := letter{t, s, s.id, t.beat}
		c.after(c.delay(), func() { c.deliver(l) })
	}
}

// hearOfAll tells a host of another one, and of all that this one knows.
func (s *site) hearOfAll(t *site) {
	for i, b := range t.believed {
		if i == t.index {
			b = belief{t.id, true}
		}
		if i != s.index && b.alive && s.believed[i] != b {
			s.believed[i] = b
			s.believe(s.c.sites[i], b.id, true)
		}
	}
}

func (s *site) believe(t *site, id peer.ID, alive bool) {
	s.awake(&ipam.Presence{Peer: id, Alive: alive, Seat: t.seat, Name: t.cfg.Name, Addr: string(t.cfg.Name) + ":7950"})
}

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
	for i, body := range []wire.Body{wire.Welcome{Hello: wire.Hello{Name: "passer", Spoken: chronicle.Spoken}}, wire.Join{Name: "passer"}} {
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
