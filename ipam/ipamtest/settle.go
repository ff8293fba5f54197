package ipamtest

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// settle ends all faults, lets time pass, and looks whether everything is as it should be: all peers know the same, nothing is held
// by nobody, and every address that can be had is had from each peer (I6).
func (c *cluster) settle() {
	c.calm = true
	c.tracef("the faults end")
	c.heal()
	c.awaken()
	c.cureAll()
	for _, s := range c.sites {
		s.powerOn()
		s.start()
	}
	for _, s := range c.sites {
		c.pass(s.stopped - c.now)
	}
	for s := range c.running() {
		if s.cfg.Spoken == olderLevel {
			c.upgrade(s)
		}
	}
	c.pass(time.Minute)
	c.rejoinAll(2 * time.Minute)
	if c.w.Doom && len(c.sites) > 1 && c.wasFounded() || c.majorityLost() {
		c.recover()
	}
	if !c.rejoinAll(10 * time.Minute) {
		c.fail("liveness", "a host that was given up has not heard of it")
	}
	if c.anyPeer() == nil && c.count["told to leave"]+c.count["evicted alive"] > 0 {
		return // nobody stayed but some who are no more: there is nothing to recover
	}
	for s := range c.running() {
		c.ask(s, &ipam.DrainRequest{Undo: true})
	}
	c.agree()
	// An engine that starts answers nobody until it has asked for all that it has, and may wait for each answer.
	c.wait(10*time.Minute, func() bool {
		return !slices.ContainsFunc(c.sites, func(s *site) bool { return s.engine.starting })
	})
	c.lookAll(3, 30*time.Second)
	c.settleLost()
	for s := range c.running() {
		for _, x := range s.engine.clients {
			s.leaves(x)
			c.ask(s, &ipam.FreeRequest{ID: x.name})
		}
		s.unlockAll()
	}
	c.releaseStrangers()
	c.pass(30 * time.Second)
	c.noLeak()
	if !c.wait(time.Minute, c.agreed) {
		c.fail("liveness", "a minute after the last look the peers do not agree: %s; the roster is %s", c.standing(), c.rosterText())
	}
	for s := range c.running() {
		c.oracle.check(s)
	}
	if c.breach == nil {
		c.account()
	}
	c.noConflict()
	c.identifyAll()
	c.lockAll()
	c.nameSome()
	c.takeAll()
	c.clearAway()
}

// agree lets time pass until all peers know the same, once those are buried who are no more.
func (c *cluster) agree() {
	c.buryTheDead()
	agreed := false
	for range 2 { // an engine that has yet to start, or makes one still, removes none
		if c.oracle.state.Slot == 0 {
			// A network that was made while the engine answered nothing was taken for one that it has, and a new database beside it
			// for one after a lost one: no host has founded a cluster.
			for _, s := range c.sites {
				s.engine.removeAll()
			}
		}
		if agreed = c.wait(10*time.Minute, c.agreed); agreed || c.oracle.state.Slot > 0 {
			break
		}
	}
	if !agreed && c.majorityLost() { // only now: a dead one was admitted late
		c.recover()
		c.buryTheDead()
		agreed = c.wait(10*time.Minute, c.agreed)
	}
	if !agreed {
		c.fail("liveness", "after ten minutes of good weather the peers do not agree: %s; the roster is %s", c.standing(), c.rosterText())
	}
}

// members yields the hosts whose peers are in the roster and stay there, until something breaks.
func (c *cluster) members() iter.Seq[*site] {
	return func(yield func(*site) bool) {
		for _, s := range c.sites {
			if c.breach == nil && c.isMember(s) && !yield(s) {
				return
			}
		}
	}
}

// isMember reports whether the peer of a host runs, is in the roster, and stays there.
func (c *cluster) isMember(s *site) bool {
	return s.machine != nil && !s.leaving && c.oracle.state.Member(s.id) != nil
}

// majorityLost reports whether a majority is lost for good, as it may be where those who left, or were evicted although they live,
// were needed, or dead ones were admitted.
func (c *cluster) majorityLost() bool {
	return (c.count["told to leave"]+c.count["evicted alive"] > 0 || c.posthumous()) && !c.goesOn(nil, nil)
}

// pass lets that much time pass.
func (c *cluster) pass(d time.Duration) { c.wait(max(d, 0), func() bool { return false }) }

// wait lets time pass until a condition holds, and reports whether it did, or something broke. It looks every 64 steps, and every
// second, in which there may be fewer.
func (c *cluster) wait(d time.Duration, until func() bool) bool {
	end := c.now + d
	limit := c.steps + 1_000_000
	due := c.now
	for k := 0; c.breach == nil; k++ {
		if k%64 == 0 || c.now >= due {
			if until() {
				return true
			}
			due = c.now + time.Second
		}
		if len(c.tasks) == 0 || c.tasks[len(c.tasks)-1].at > end {
			c.now = end
			return until()
		}
		if c.next(); c.steps > limit {
			c.fail("liveness", "a million steps in %v", c.now-end+d)
		}
	}
	return true
}

// lookAll has all processes list what their engines have, so many times, and lets time pass behind each.
func (c *cluster) lookAll(times int, d time.Duration) {
	for range times {
		for _, s := range c.sites {
			s.engine.look()
		}
		c.pass(d)
	}
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

// releaseStrangers has operators free what is kept back for strangers, which would take an hour by itself.
func (c *cluster) releaseStrangers() {
	if c.w.Stranger == 0 {
		return
	}
	for s := range c.running() {
		list, _ := s.machine.Addresses(s.clock(), "") // of all pools there are
		for _, a := range list {
			if a.State == "stranger" {
				c.ask(s, &ipam.FreeRequest{Address: a.Address})
			}
		}
	}
}

// agreed reports whether all peers stand at the last slot, in the roster, and nobody waits for anything.
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
	return c.quarantined(func(s *site) bool { return s != nil && s.leaving })
}

// quarantined says which peer was evicted and owns space, but those on some hosts; empty if there is none.
func (c *cluster) quarantined(but func(s *site) bool) string {
	for _, g := range c.oracle.state.Former {
		if !g.Forgotten && c.oracle.state.OwnedBy(g.ID) > 0 && !but(c.hostOf(g.ID)) {
			return g.ID.Short() + " was evicted and owns space"
		}
	}
	return ""
}
