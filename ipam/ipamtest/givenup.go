package ipamtest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A host may be given up with all that it has, and come back: an operator has said that it is gone for good, and was wrong. Its
// peer is suspended, and an operator has it start over. What its containers use others may get until they have heard its warning,
// and nobody after that. This is the one thing that the oracle lets two have.

// givenUp takes note that the space of a peer is given up, whose host is away, maybe with all that it has.
func (o *oracle) givenUp(id peer.ID) {
	s := o.c.bearer(id)
	if s == nil || s.absent == nil {
		return
	}
	s.outside = true
	for _, n := range s.engine.networks {
		o.drops(n)
		n.givenUp = true
	}
	for i := range o.use {
		if o.use[i].on == s {
			s.lost[i] = o.use[i].name
			o.use[i] = user{}
			o.c.count["given up in use"]++
		}
	}
	s.rejoinLater()
}

// hasAgain takes note that a host has an address again that a container on it has used all the while.
func (o *oracle) hasAgain(s *site, i int) {
	if s.lost[i] == "" || s.outside {
		return
	}
	if u := o.use[i]; u.on != nil {
		o.c.fail("I1", "%s has %v again, which %s on %s uses", s, o.c.list[i], u.name, u.on)
	}
	o.use[i] = user{s, s.lost[i]}
	s.lost[i] = ""
	for _, t := range o.c.sites {
		delete(t.told, i) // the warning is over: a later one says so if the host is given up again
	}
	o.c.count["had again"]++
}

// heeds is for how long a peer has to heed a warning at least, by a clock that may be wrong.
const heeds = 8 * time.Minute

// word is a warning of an address.
type word struct {
	at time.Duration // when it was heard
	by *site         // whose peer warned
}

// warned takes note that a host's peer has heard a warning. One that does not know the peer that warns need not heed it, and what
// it has handed out itself it cannot take back.
func (o *oracle) warned(s *site, f *wire.Frame, q wire.InUse) {
	state := s.machine.State()
	if state.Member(f.From) == nil && state.Gone(f.From) == nil {
		return
	}
	for _, a := range q.Addresses {
		if i, known := o.c.addrs[a]; known && !s.holds(a) {
			s.told[i] = word{o.c.now, o.c.hostOf(f.From)}
			o.c.count["warned"]++
		}
	}
}

// unheard forgets what a process heard that ends before it was on its disk.
func (o *oracle) unheard(s *site) {
	for i := range s.told {
		if _, on := s.disk[machinetest.Key("warning", string(o.c.list[i].AsSlice()))]; !on {
			delete(s.told, i)
		}
	}
}

// heeded reports a grant of an address of which the host's peer was warned, as a container on another host uses it, or on this one
// since before its peer started over.
func (o *oracle) heeded(s *site, i int, name string) {
	if s.outside {
		o.c.fail("I1", "%v is given to %s on %s, which was given up", o.c.list[i], name, s)
	}
	if at := s.rejoined; s.lost[i] != "" && at > 0 && o.c.now-at < heeds {
		o.c.fail("I1", "%v is given to %s on %s, where %s has used it since before it started over", o.c.list[i], name, s, s.lost[i])
	}
	if w, told := s.told[i]; told && o.c.now-w.at < heeds && w.by != nil && w.by != s && w.by.lost[i] != "" {
		o.c.fail("I1", "%v is given to %s on %s, which has heard that %s on %s uses it", o.c.list[i], name, s, w.by.lost[i], w.by)
	}
}

// isSuspended reports whether the host's peer says that it is.
func (s *site) isSuspended() bool {
	return s.machine != nil && s.machine.Status(s.clock()).State == ipam.Suspended
}

// rejoinLater has an operator have the peer start over, some time after it has found out that it was given up.
func (s *site) rejoinLater() {
	c := s.c
	c.script(func() bool { return s.outside && c.breach == nil && !c.calm }, func(t *script) {
		for t.sleep(c.late()); s.absent != nil || s.stopped > c.now || !s.isSuspended() || c.unsettled(); {
			t.sleep(c.late())
		}
		s.rejoin()
	})
}

// rejoin has the peer of a host start over, in its process: who waits for an answer is answered by the new one.
func (s *site) rejoin() {
	c := s.c
	if s.batch != nil {
		if s.flush(); s.machine == nil {
			s.c.after(time.Second, s.rejoinLater)
			return
		}
	}
	remains, err := s.machine.Remains()
	if err != nil {
		c.fail("rejoin", "%s does not start over: %v", s, err)
		return
	}
	cfg := s.config()
	cfg.Remains = &remains
	m, err := ipam.New(cfg)
	if err != nil {
		c.fail("rejoin", "%s: %v", s, err)
		return
	}
	c.count["rejoined"]++
	c.tracef("%s starts over", s)
	clear(s.ready)
	s.beginAnew()
	s.forgetGateways() // which the old database alone knew
	s.begin(m)
	s.beat, s.rejoined = nil, c.now
	life, waiting := s.life, slices.Clone(s.calls)
	// The new database is put in the place of the old one when this is on it.
	fx := m.Step(s.clock(), ipam.Tick{})
	s.commit(fx.Save)
	s.id = m.Self()
	s.peers = append(s.peers, s.id)
	s.order(fx.WakeAt)
	s.carryOut(fx)
	s.call(&ipam.Greeting{}, nil)
	if s.life == life {
		s.tellHost()
	}
	for _, w := range waiting {
		if s.life == life { // else it has ended, and whoever waited was told
			s.awake(&ipam.Call{ID: w.id, Deadline: w.deadline, Request: w.request})
		}
	}
	if s.life == life {
		s.lookAround()
		s.claimSoon()
	}
}

// claimSoon has the host's process claim what its clients had before, again and again until each has it or is refused it for good.
func (s *site) claimSoon() {
	c := s.c
	c.script(func() bool { return s.machine != nil && !s.outside && !s.dead && c.breach == nil }, func(t *script) {
		for more := true; more; {
			t.sleep(c.between(time.Second, 5*time.Second))
			list := s.machine.Unclaimed()
			for _, q := range list {
				s.claimAgain(q)
			}
			more = len(list) > 0
		}
	})
}

func (s *site) claimAgain(q ipam.ClientRequest) {
	i := slices.IndexFunc(s.engine.clients, func(x *client) bool { return x.name == q.ID && x.address == q.Address })
	if i < 0 { // nobody wants it any more
		s.call(&ipam.FreeRequest{ID: q.ID}, nil)
		return
	}
	x := s.engine.clients[i]
	if x.busy || s.machine.Status(s.clock()).State != ipam.Ready {
		return
	}
	x.busy = true
	s.call(&q, func(r ipam.Reply, ok bool) {
		x.busy = false
		switch code := ipam.Code(r.Err); {
		case !ok || x.address != q.Address:
		case r.Err == nil:
			s.c.count["claimed again"]++
			s.c.oracle.uses(s, x.address, x.name)
		case code != ipam.ErrNotReady.Error() && code != ipam.ErrUnreachable.Error() && code != ipam.ErrSuspended.Error():
			s.leaves(x)
			s.call(&ipam.FreeRequest{ID: x.name}, nil)
		}
	})
}

// rejoinAll has the peers of all hosts start over that were given up, once they have heard of it.
func (c *cluster) rejoinAll(limit time.Duration) (done bool) {
	hear := func() bool {
		return !slices.ContainsFunc(c.sites, func(s *site) bool { return s.outside && !s.dead && !s.isSuspended() })
	}
	done = c.wait(limit, hear)
	for _, s := range c.sites {
		if s.outside && !s.dead && s.isSuspended() && c.breach == nil {
			s.rejoin()
		}
	}
	return done
}

// settleLost looks whether hosts that started over have again what nobody else has got, and has users remove what is on those where
// two have something.
func (c *cluster) settleLost() {
	c.pass(30 * time.Second) // clients have claimed what they had
	for _, s := range c.sites {
		if s.machine == nil || c.breach != nil || !s.cfg.AwaitInventory || c.oracle.state.Member(s.id) == nil {
			continue
		}
		for k, name := range s.lost {
			if name != "" && c.isNobodys(s, k) {
				c.fail("lost", "%s does not have %v again, which %q on it uses, and nobody else: %v", s, c.list[k], name, s.machine.Status(s.clock()).Problems)
			}
		}
	}
	for s := range c.running() {
		if !s.hasLost() {
			continue
		}
		c.count["users removed what two had"]++
		s.clear()
		c.pass(10 * time.Second)
		s.engine.removeAll()
		c.pass(10 * time.Second)
		c.lookAll(3, 30*time.Second)
	}
	c.freeSetAside()
	for range 21 { // until nobody warns any more, and nobody heeds what was said last
		if !c.withholds() {
			break
		}
		c.pass(time.Minute)
	}
}

// withholds reports whether a host withholds an address, on whatever word.
func (c *cluster) withholds() bool {
	for s := range c.running() {
		for key := range s.disk {
			if strings.HasPrefix(key, machinetest.Key("warning", "")) {
				return true
			}
		}
	}
	return false
}

// freeSetAside has operators free what hosts without the engine's socket have set aside since they started over, and what nothing
// uses: no list tells, and the release may have been lost.
func (c *cluster) freeSetAside() {
	for s := range c.running() {
		if s.cfg.AwaitInventory {
			continue
		}
		for _, a := range c.list {
			if by := s.disk[machinetest.Key("warning", string(a.AsSlice()))]; bytes.HasSuffix(by, s.id[:]) && !c.oracle.isUsed(s, a) {
				c.ask(s, &ipam.FreeRequest{Address: a})
			}
		}
	}
}

// hasLost reports whether a container on the host uses what is not its own.
func (s *site) hasLost() bool {
	return slices.ContainsFunc(s.lost, func(name string) bool { return name != "" })
}

// clearLost has users stop all that is on hosts where a container uses what is not the host's own.
func (c *cluster) clearLost() {
	for s := range c.running() {
		if s.absent == nil && s.hasLost() {
			s.clear()
		}
	}
}

// isNobodys reports whether an address, by its number, is neither used, held nor kept back on another host than this.
func (c *cluster) isNobodys(s *site, k int) bool {
	a := c.list[k]
	if c.oracle.use[k].on != nil {
		return false
	}
	for _, p := range c.oracle.state.Pools {
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			continue
		}
		t, _ := p.Ring.At(o)
		if r := p.ReservationAt(o); r != nil && r.Kind != chronicle.KindKeptForName || c.oracle.heldBeside(a, s) {
			return false
		}
		return t.Owner == s.id || c.siteOf(t.Owner) != nil && c.oracle.state.Member(t.Owner) != nil || t.Owner == ring.Free
	}
	return false
}
