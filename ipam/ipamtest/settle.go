package ipamtest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// settle ends all faults, lets time pass, and looks whether everything is as
// it should be: all peers know the same, nothing is held by nobody, and every
// address that can be had is had from each peer (I6).
func (c *cluster) settle() {
	c.calm = true
	c.tracef("the faults end")
	c.heal()
	for _, s := range c.sites {
		s.powerOn()
		s.start()
	}
	for _, s := range c.sites {
		c.pass(s.stopped - c.now)
	}
	c.pass(time.Minute)
	if (c.count["told to leave"]+c.count["evicted alive"] > 0 || c.posthumous()) && !c.goesOn(nil, nil) {
		// Those who left, or were evicted although they live, were needed, or
		// dead ones were admitted. It takes an operator to go on (recover).
		c.count["majority lost"]++
		return
	}
	for _, s := range c.sites {
		if s.machine != nil {
			c.ask(s, &ipam.DrainRequest{Undo: true})
		}
	}
	c.buryTheDead()
	if !c.wait(10*time.Minute, c.agreed) {
		c.fail("liveness", "after ten minutes of good weather the peers do not agree: %s; the roster is %s", c.standing(), c.rosterText())
	}
	for range 3 {
		for _, s := range c.sites {
			s.engine.look(s.engine.life)
		}
		c.pass(30 * time.Second)
	}
	for _, s := range c.sites {
		for _, x := range s.engine.clients {
			if s.machine != nil {
				c.turnOff(s, x)
			}
		}
	}
	c.releaseStrangers()
	c.pass(30 * time.Second)
	c.noLeak()
	if !c.wait(time.Minute, c.agreed) {
		c.fail("liveness", "a minute after the last look the peers do not agree: %s; the roster is %s", c.standing(), c.rosterText())
	}
	for _, s := range c.sites {
		if s.machine != nil && c.breach == nil {
			c.oracle.check(s)
		}
	}
	c.takeAll()
}

// posthumous reports whether a peer is in the roster that was no more when it
// was admitted.
func (c *cluster) posthumous() bool {
	return slices.ContainsFunc(c.losses, func(l loss) bool { return l.stillborn && c.oracle.state.Member(l.id) != nil })
}

// pass lets that much time pass.
func (c *cluster) pass(d time.Duration) { c.wait(max(d, 0), func() bool { return false }) }

// wait lets time pass until a condition holds, and reports whether it did.
func (c *cluster) wait(d time.Duration, until func() bool) bool {
	end := c.now + d
	limit := c.steps + 1_000_000
	for k := 0; c.breach == nil; k++ {
		if k%64 == 0 && until() {
			return true
		}
		if len(c.tasks.tasks) == 0 || c.tasks.tasks[0].at > end {
			c.now = end
			return until()
		}
		if c.next(); c.steps > limit {
			c.fail("liveness", "a million steps in %v", c.now-end+d)
		}
	}
	return true
}

// ask has a request served and waits for the answer.
func (c *cluster) ask(s *site, r ipam.Request) (reply ipam.Reply) {
	answered := false
	s.call(r, func(got ipam.Reply, ok bool) {
		if reply, answered = got, true; !ok {
			reply.Err = errors.New("the process ended")
		}
	})
	end := c.now + c.w.Deadline + 2*time.Second
	for !answered && c.breach == nil {
		if c.now > end {
			c.fail("liveness", "%s has not answered %s by its deadline", s, requestText(r))
			break
		}
		c.next()
	}
	return reply
}

// turnOff frees what a holder outside Docker has.
func (c *cluster) turnOff(s *site, x *client) {
	if x.address.IsValid() {
		c.oracle.leaves(s, x.address, x.name)
		x.address = netip.Addr{}
	}
	c.ask(s, &ipam.FreeRequest{ID: x.name})
}

// releaseStrangers has operators free what is kept back for strangers, which
// would take an hour by itself.
func (c *cluster) releaseStrangers() {
	for _, s := range c.sites {
		if s.machine == nil || c.w.Stranger == 0 {
			continue
		}
		list, _ := s.machine.Addresses(s.clock(), "") // of all pools there are
		for _, a := range list {
			if a.State == "stranger" {
				c.ask(s, &ipam.FreeRequest{Address: a.Address})
			}
		}
	}
}

// agreed reports whether all peers stand at the last slot, in the roster, and
// nobody waits for anything.
func (c *cluster) agreed() bool { return c.standing() == "" }

// rosterText says who is in the roster, and where.
func (c *cluster) rosterText() string {
	var b strings.Builder
	for _, m := range c.oracle.state.Roster {
		fmt.Fprintf(&b, "%s on %v, %v; ", m.ID.Short(), c.siteOf(m.ID), m.Phase)
	}
	return b.String()
}

// standing says what keeps the peers from having agreed; empty if nothing does.
func (c *cluster) standing() string {
	for _, s := range c.sites {
		switch {
		case s.dead:
		case s.machine == nil:
			return s.String() + " is down"
		case s.machine.State().Slot != c.oracle.state.Slot:
			return s.String() + " lags behind"
		case c.oracle.state.Member(s.id) == nil && !s.leaving:
			return s.String() + " is not in the roster; " + fmt.Sprint(s.machine.Status(s.clock()).Problems)
		case len(s.calls) > 0:
			return s.String() + " has calls that wait"
		}
	}
	for _, m := range c.oracle.state.Roster {
		if c.siteOf(m.ID) == nil {
			return m.ID.Short() + " is in the roster, and is no more"
		}
	}
	for _, g := range c.oracle.state.Former {
		if s := c.hostOf(g.ID); !g.Forgotten && c.owns(g.ID) && (s == nil || !s.leaving) {
			return g.ID.Short() + " was evicted and owns space"
		}
	}
	return ""
}

// hostOf returns the host that the peer was on, unless that was destroyed.
func (c *cluster) hostOf(id peer.ID) *site {
	for _, s := range c.sites {
		if slices.Contains(s.peers, id) {
			return s
		}
	}
	return nil
}

func (c *cluster) owns(id peer.ID) bool {
	for _, p := range c.oracle.state.Pools {
		for range p.Ring.OwnedBy(id) {
			return true
		}
	}
	return false
}

// buryTheDead has an operator evict and forget the peers of destroyed hosts,
// and evict the former selves of those that have left: nobody else will.
func (c *cluster) buryTheDead() {
	for _, m := range slices.Clone(c.oracle.state.Roster) {
		if s := c.hostOf(m.ID); s != nil && s.leaving && s.id != m.ID {
			if at := c.anyPeer(); at != nil {
				c.ask(at, &ipam.EvictRequest{Peer: m.ID.String()})
			}
		}
	}
	for _, s := range c.sites {
		for _, id := range s.lostPeers {
			for range 30 {
				at := c.anyPeer()
				if at == nil || c.breach != nil {
					break
				}
				if c.oracle.state.Member(id) != nil {
					c.ask(at, &ipam.EvictRequest{Peer: id.String()})
				}
				g := c.oracle.state.Gone(id)
				if c.oracle.state.Member(id) == nil && (g == nil || g.Forgotten) {
					break
				}
				c.ask(at, &ipam.ForgetRequest{Peer: id.String()})
				c.pass(10 * time.Second) // some may still believe it to live
			}
		}
	}
}

// anyPeer returns a host with a peer that is in the roster, or nil.
func (c *cluster) anyPeer() *site {
	var live []*site
	for _, s := range c.sites {
		if s.machine != nil && s.machine.State().Member(s.id) != nil {
			live = append(live, s)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return one(c.rnd, live...)
}

// noLeak looks for addresses that are held and used by nobody.
func (c *cluster) noLeak() {
	for i := range c.oracle.sites {
		s := c.sites[i]
		for k, held := range c.oracle.sites[i].held {
			if held && c.oracle.use[k].site != i+1 && s.machine != nil && c.breach == nil {
				st, _ := s.machine.Who(s.clock(), c.list[k])
				if st.Kind == "gateway" && slices.ContainsFunc(s.engine.networks, func(n *network) bool { return n.Pool == st.Pool }) {
					continue // of a network that was not made; the next one on the pool gets it
				}
				c.fail("leak", "%v is held on %s and nobody uses it: %+v; its networks are %+v", c.list[k], s, st, s.machine.Status(s.clock()).Networks)
			}
		}
	}
}

// takeAll takes everything that there is from one peer after the other.
func (c *cluster) takeAll() {
	sites := c.rnd.Perm(len(c.sites))
	if c.rnd.IntN(4) > 0 {
		sites = sites[:1]
	}
	for _, i := range sites {
		s := c.sites[i]
		if s.machine == nil || c.breach != nil || s.leaving || c.oracle.state.Member(s.id) == nil {
			continue
		}
		for _, p := range slices.Clone(c.oracle.state.Pools) {
			if c.oracle.state.PoolOf(p.CIDR) != nil {
				c.takePool(s, p.CIDR)
			}
		}
	}
}

// takePool takes all of a pool from one peer.
func (c *cluster) takePool(s *site, subnet netip.Prefix) {
	want := c.obtainable(subnet)
	got := 0
	const holder = "everything"
	var err error
	for tries := 0; c.breach == nil; {
		r := c.ask(s, &ipam.ClientRequest{Pool: subnet.String(), ID: holder + strconv.Itoa(got)})
		if err = r.Err; err != nil {
			// Some of it may have been on its way from one peer to another.
			if tries++; tries > 3 {
				break
			}
			c.pass(12 * time.Second)
			continue
		}
		c.oracle.uses(s, r.Address.Address.Addr(), holder+strconv.Itoa(got))
		got++
	}
	if p := c.oracle.state.PoolOf(subnet); p == nil {
		want = got // nobody used it, and it went
	}
	if c.breach == nil && got != want {
		c.fail("I6", "%s obtains %d addresses of %v, and there are %d: %v", s, got, subnet, want, err)
	}
	for i := range c.list {
		if u := c.oracle.use[i]; u.site == s.index+1 && len(u.name) > len(holder) && u.name[:len(holder)] == holder && c.breach == nil {
			c.oracle.leaves(s, c.list[i], u.name)
			c.ask(s, &ipam.FreeRequest{ID: u.name})
		}
	}
}

// obtainable counts the addresses of a pool that are neither held, reserved
// nor quarantined.
func (c *cluster) obtainable(subnet netip.Prefix) int {
	p := c.oracle.state.PoolOf(subnet)
	n := 0
	for r, t := range p.Ring.All() {
		for o := r.Start; o < r.End; o++ {
			if t.Owner == ring.Reserved || t.Owner != ring.Free && c.oracle.state.Member(t.Owner) == nil {
				continue
			}
			if !c.heldAt(p, o) {
				n++
			}
		}
	}
	return n
}

func (c *cluster) heldAt(p *chronicle.Pool, o addr.Offset) bool {
	i := c.addrs[p.CIDR.Addr()] + int(o)
	for k := range c.oracle.sites {
		if c.oracle.sites[k].held[i] {
			return true
		}
	}
	return false
}
