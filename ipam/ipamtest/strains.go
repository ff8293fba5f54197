package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// strains are what hosts of some schedules do that is rarer, or lasts longer, than in others: an engine that starts also starts
// containers with a restart policy before it answers anybody, and has a swarm's agent make networks; a database is lost of a host
// that is told of no other host; the process cannot ask its engine for minutes, or one of its networks does not answer. Like
// [habits] they have their own source of randomness. Chances are in ten thousandths.
type strains struct {
	rnd    *rand.Rand
	early  int // of engines that start, those that start containers before they answer anybody
	swarm  int // of them, those that make networks
	untold int // of databases that are lost, those of hosts that look for no cluster unless their engine has networks
	deaf   int // of processes that start, those that cannot ask the engine for long
	hangs  int // of looks, those from which on a network does not answer for long
	// A device records how peers are admitted, and sends that again.
	recorder time.Duration
	recorded []letter
	passer   peer.ID // a peer that asked to be admitted, and was gone before it was
}

func drawStrains(seed uint64) strains {
	h := strains{rnd: rand.New(rand.NewPCG(seed, 0x57a1))}
	if h.rnd.IntN(4) == 0 {
		h.draw()
	}
	return h
}

func (h *strains) draw() {
	h.early, h.swarm = one(h.rnd, 0, 5000, 10_000), one(h.rnd, 0, 0, 5000)
	h.untold = one(h.rnd, 0, 5000)
	h.deaf, h.hangs = one(h.rnd, 0, 1000, 5000), one(h.rnd, 0, 200, 1000)
	h.recorder = one(h.rnd, 0, 5*time.Second, time.Minute)
}

// goStrained has some of all this happen again and again.
func (h *strains) goStrained(w *Weather) {
	h.draw()
	h.early, h.untold = max(h.early, 3000), 8000
	if w.Birth != Apart {
		w.Hosts = max(w.Hosts, 4) // else hardly a database may be lost
	}
	w.Nemesis[replays] += 4
	w.Nemesis[wipes] += 2
	if w.Storm == 0 || w.Storm > 10*time.Second {
		w.Storm = one(h.rnd, 2*time.Second, 10*time.Second)
	}
}

// change has engines start as they do that start containers then, and a device listen, if there is one.
func (h *strains) change(w *Weather, c *customs) {
	if c.bare {
		h.early = max(h.early, 3000)
	}
	c.orderly = c.orderly || h.early+h.swarm > 0
	w.Recorder = h.recorder
}

func (h *strains) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

// long draws how long it lasts that an engine cannot be asked, or not for all.
func (h *strains) long() time.Duration {
	return time.Duration(h.rnd.ExpFloat64() * float64(one(h.rnd, 20*time.Second, 3*time.Minute, 20*time.Minute)))
}

// beforeAnswers are the steps of an engine that starts which are not about what it has: networks of a swarm's agent, and containers
// with a restart policy.
func (e *engine) beforeAnswers() (steps []func(next func())) {
	c, h := e.s.c, &e.s.c.strains
	if c.calm {
		return nil
	}
	if h.chance(h.swarm) {
		steps = append(steps, e.makeEarly)
	}
	if h.chance(h.early) {
		for range 1 + h.rnd.IntN(5) {
			steps = append(steps, e.restartOne)
		}
	}
	return steps
}

// restartOne has an engine that starts start a container, with --ip or without.
func (e *engine) restartOne(next func()) {
	c, h := e.s.c, &e.s.c.strains
	if len(e.networks) == 0 {
		next()
		return
	}
	x, n := one(h.rnd, e.containers...), one(h.rnd, e.networks...)
	if x.busy || x.running || !e.runs(n) {
		next()
		return
	}
	var a netip.Addr
	switch h.rnd.IntN(4) {
	case 0:
		a = c.list[c.addrs[n.Pool.Addr()]:][h.rnd.IntN(1<<(n.Pool.Addr().BitLen()-n.Pool.Bits()))]
	case 1:
		if had := e.has(n.Pool); len(had) > 0 {
			a = one(h.rnd, had...)
		}
	}
	c.count["early typed"]++
	e.runWith(x, n, ipam.MAC{2, byte(e.s.index), byte(h.rnd.Uint32()), byte(h.rnd.Uint32()), byte(h.rnd.Uint32()), 5}, a)
	e.once(func() bool { return !x.busy }, next)
}

// makeEarly has an engine that starts make a network that it does not have.
func (e *engine) makeEarly(next func()) {
	if len(e.networks) >= 4 {
		next()
		return
	}
	e.s.c.count["made while it starts"]++
	at := len(e.networks)
	e.create()
	if len(e.networks) == at {
		next()
		return
	}
	n := e.networks[at]
	e.once(func() bool { return n.ready || !e.knows(n) }, next)
}

// once goes on with next as soon as something is so.
func (e *engine) once(so func() bool, next func()) {
	if so() {
		next()
		return
	}
	e.after(10*time.Millisecond, func() { e.once(so, next) })
}

// mayBeUntold reports whether a host that loses its database now is told of no other host then. It can know that it had a cluster as
// long as its engine has a network.
func (s *site) mayBeUntold() bool {
	ready := func(n *network) bool { return n.ready }
	return s.c.strains.chance(s.c.strains.untold) && slices.ContainsFunc(s.engine.networks, ready)
}

// goDeaf has a process that starts not reach its engine for long: the socket refuses it, or takes it and answers nothing. Where a
// database is new nobody but the engine tells what lives on, so there it is refused, and knows that lists may come any time.
func (s *site) goDeaf() {
	c, h := s.c, &s.c.strains
	if s.deaf = 0; c.calm || !s.cfg.AwaitInventory || !h.chance(h.deaf) {
		return
	}
	s.deaf, s.blind = c.now+h.long(), h.rnd.IntN(2) == 0 && len(s.disk) > 0 && !s.isNew()
	c.count["deaf"]++
}

// isDeaf reports whether the process cannot ask its engine now, and has it know.
func (s *site) isDeaf() bool {
	if c := s.c; s.deaf <= c.now || c.calm || c.beginning {
		return false
	}
	if s.blind && !s.isNew() {
		s.call(&ipam.Blindness{}, nil)
	}
	return true
}

// hang leaves out of a list a network that does not answer, and has one answer nothing from now on.
func (e *engine) hang(inv *ipam.Inventory) {
	c, h := e.s.c, &e.s.c.strains
	if c.calm || c.beginning {
		return
	}
	if e.hangs <= c.now && len(e.networks) > 0 && h.chance(h.hangs) {
		e.silent, e.hangs = one(h.rnd, e.networks...), c.now+h.long()
		c.count["network hangs"]++
	}
	if e.hangs <= c.now {
		return
	}
	for i := range inv.Networks {
		if n := &inv.Networks[i]; n.ID == e.silent.name {
			n.Endpoints = nil
			inv.AllNetworks = !inv.Partial
			inv.Partial = true
		}
	}
}

// knows reports whether the engine has a network, or makes it.
func (e *engine) knows(n *network) bool { return slices.Contains(e.networks, n) }

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

func (h *strains) between(from, to time.Duration) time.Duration {
	return from + time.Duration(h.rnd.Int64N(int64(to-from)))
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

// admitted looks whether the peer is admitted that was gone before it could be. It would have a vote. Of others that are gone nobody can
// tell: a host may have asked for their admission while they were there, and the others agree to it late.
func (o *oracle) admitted(id peer.ID) {
	if id == o.c.strains.passer {
		o.c.fail("S5", "%s is admitted, which was gone before it could be", id.Short())
	}
}
