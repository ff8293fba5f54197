package paxos

import (
	"math/rand/v2"
	"slices"
)

// source makes the choices of a schedule: a seeded generator, or a fuzzer.
type source interface {
	// IntN returns a number from 0 to n-1.
	IntN(n int) int
}

// seeded returns the source of a schedule's number.
func seeded(seed uint64) source { return rand.New(rand.NewPCG(seed, 0x9a805)) }

// weather is how much goes wrong in one schedule: chances in percent, drawn
// once, so that quiet, stormy and one-sided schedules all occur.
type weather struct {
	start, crash, cut, write, resend int // of a step to be that
	loss, repeat                     int // of a packet
	inOrder                          int // that the oldest packet is next, not any
	partial                          int // that a broadcast reaches some only
	slow                             int // that an answer waits for a later write
	fresh                            int // that a retry brings a new value
	forget                           int // that a start does not know its own acceptor's promise
	silent                           int // that a decider dies before it tells
	direct                           int // that a start tries round 0
	proposers                        int // how many peers propose, at least 1
}

func drawWeather(src source, nodes int) weather {
	one := func(of ...int) int { return of[src.IntN(len(of))] }
	return weather{
		start:     one(1, 3, 8),
		crash:     one(0, 1, 3, 8),
		cut:       one(0, 0, 1, 4),
		write:     one(5, 15),
		resend:    one(0, 3),
		loss:      one(0, 5, 30),
		repeat:    one(0, 5, 20),
		inOrder:   one(0, 50, 90),
		partial:   one(0, 50, 90),
		slow:      one(0, 30, 80),
		fresh:     one(0, 50, 100),
		forget:    one(0, 10, 80),
		silent:    one(0, 50, 100, 100),
		direct:    one(0, 50, 100),
		proposers: 1 + src.IntN(min(3, nodes)),
	}
}

// schedule runs a cluster through that many steps of bad weather and then
// through good weather to a decision, and returns the first breach.
func schedule(c *cluster, src source, steps int) error {
	w := drawWeather(src, len(c.nodes))
	if c.rules.weather != nil {
		c.rules.weather(&w)
	}
	c.tracef("weather %+v", w)
	c.reach = func() uint {
		if src.IntN(100) >= w.partial {
			return everybody
		}
		some := uint(src.IntN(1 << len(c.nodes)))
		if src.IntN(2) == 0 {
			some &= uint(src.IntN(1 << len(c.nodes))) // few
		}
		return some
	}
	c.direct = func() bool { return src.IntN(100) < w.direct }
	first := src.IntN(len(c.nodes))
	if src.IntN(3) > 0 {
		c.owner = first
	}
	c.start(first, false, true)
	for range steps {
		c.step(src, w, first)
		if c.err != nil {
			return c.err
		}
		if !slices.ContainsFunc(c.nodes, func(n node) bool { return n.told == nil }) {
			break // nothing is left to happen
		}
	}
	c.early = c.decided != nil
	c.settle(src)
	return c.err
}

// step lets one thing happen.
func (c *cluster) step(src source, w weather, first int) {
	victim := src.IntN(len(c.nodes))
	proposer := (first + src.IntN(w.proposers)) % len(c.nodes)
	x := src.IntN(100)
	chance := func(percent int) bool {
		x -= percent
		return x < 0
	}
	switch {
	case chance(w.start):
		c.start(proposer, src.IntN(100) >= w.fresh, src.IntN(100) < w.forget)
		if src.IntN(100) >= w.slow {
			c.sync(proposer)
		}
	case chance(w.crash):
		if c.nodes[victim].up {
			c.crash(victim)
		}
		if src.IntN(2) == 0 {
			c.restart(victim)
		}
	case chance(w.cut):
		for i := range c.side {
			c.side[i] = src.IntN(2)
		}
	case chance(w.write):
		c.sync(victim)
	case chance(w.resend):
		c.resend(proposer)
	case len(c.wire) > 0:
		c.carry(src, w)
	default: // silence, until somebody's patience ends
		c.sync(victim)
		c.start(proposer, src.IntN(100) >= w.fresh, src.IntN(100) < w.forget)
	}
}

// carry delivers, repeats or loses a packet that is under way, however old.
func (c *cluster) carry(src source, w weather) {
	k := 0
	if src.IntN(100) >= w.inOrder {
		k = src.IntN(len(c.wire))
	}
	p := c.wire[k]
	if src.IntN(100) >= w.repeat {
		c.take(k)
	}
	if src.IntN(100) < w.loss {
		return
	}
	c.deliver(p)
	if src.IntN(100) >= w.slow {
		c.sync(p.to)
	}
	n := &c.nodes[p.to]
	if n.proposer == nil || n.proposer.Phase() != Decided {
		return
	}
	if src.IntN(100) < w.silent {
		c.crash(p.to)
		c.restart(p.to)
		return
	}
	c.tell(p.to, n.proposer.Value())
	c.broadcast(p.to, decision{c.nodes[p.to].told})
}

// settle ends all faults and has the slot decided a few times over, each time
// among what is left when the voters outside a random majority are down. It
// asserts that one proposer alone gets a decision; that it is always the same
// is asserted with each.
func (c *cluster) settle(src source) {
	c.reach = func() uint { return everybody }
	c.direct = func() bool { return true }
	clear(c.side)
	for range 3 {
		all := uint(1)<<c.voters - 1
		alive := uint(src.IntN(int(all))) + 1
		if !twinMajority(c.voters, alive) {
			alive = all &^ alive // of two halves, one is a majority
		}
		for i := range c.nodes {
			if c.nodes[i].up {
				c.crash(i)
			}
			if i >= c.voters || alive>>i&1 == 1 {
				c.restart(i)
			}
		}
		leader := src.IntN(len(c.nodes))
		for !c.nodes[leader].up {
			leader = (leader + 1) % len(c.nodes)
		}
		c.lead(src, leader)
	}
}

// lead has one peer propose until it knows the decision.
func (c *cluster) lead(src source, leader int) {
	c.tracef("faults end, peer %d proposes", leader+1)
	c.drain(src) // what is still under way may outbid the leader
	n := &c.nodes[leader]
	known := func() bool {
		return n.told != nil || n.proposer != nil && n.proposer.Phase() == Decided
	}
	// Each ballot that is lost has learned the promise of a voter at least.
	for range c.voters + 1 {
		if c.err != nil || known() {
			return
		}
		c.start(leader, false, true)
		c.sync(leader)
		c.drain(src)
	}
	if !known() {
		c.breach(errNoProgress, "peer %d is %v at %v", leader+1, n.proposer.Phase(), n.proposer.Ballot())
	}
}

// drain delivers all that is under way and all that follows from it, in any
// order.
func (c *cluster) drain(src source) {
	for len(c.wire) > 0 && c.err == nil {
		p := c.take(src.IntN(len(c.wire)))
		c.deliver(p)
		c.sync(p.to)
	}
}
