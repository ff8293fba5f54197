package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Hosts are away for a while: a host is suspended, and its clock that nobody sets stands still; a process alone is frozen; a host
// is off for long. Nobody believes them to be there meanwhile, and an operator may state that they are gone for good, which those
// survive that go on only with a majority.

// absence is that of one host.
type absence struct {
	how    away
	since  time.Duration
	until  time.Duration
	alarm  time.Duration // in how long a tick was due, 0: none was
	frames int           // that its sockets take meanwhile
	doomed bool          // an operator has it given up, and it is not there before it is
}

// away is how a host is.
type away string

const (
	suspended away = "suspended"
	frozen    away = "frozen" // its process alone
	off       away = "off"
)

// suspended reports whether nothing runs on the host.
func (s *site) suspended() bool { return s.absent != nil && s.absent.how == suspended }

// doomed reports whether the host is about to be given up.
func (s *site) doomed() bool { return s.absent != nil && s.absent.doomed }

// present reports whether the process of the host, if there is one, does what it should.
func (s *site) present() bool { return s.absent == nil && s.stopped <= s.c.now && !s.outside }

// late draws after how long a host comes back that was lost.
func (c *cluster) late() time.Duration { return 10*time.Second + c.about(2*time.Minute) }

// sleep has a host go away, as it is or once users have removed what is on it.
func (s *site) sleep() {
	c, e := s.c, &s.engine
	if !s.mayGo() {
		return
	}
	if !c.chance(c.w.Emptied) {
		laden := !c.w.Config.BootAlone && c.chance(c.w.Laden) && !s.machine.AwaitsLists() && s.mayBeGivenUp()
		if laden {
			c.count["laden"]++
		}
		s.goAway(laden)
		return
	}
	s.clear()
	s.packs = true
	e.do(func(t *script) {
		defer func() { s.packs = false }()
		bare := false
		for tries := 11; tries > 0 && !bare; tries-- {
			if t.sleep(c.between(0, 2*time.Second)); c.calm || !s.mayGo() {
				return
			}
			e.removeAll()
			if s.machine == nil { // it crashed over that, and one that is to start cannot be frozen
				return
			}
			bare = s.bare()
		}
		s.goAway(!c.w.Config.BootAlone && bare && c.chance(c.w.GivenUp))
	})
}

// mayGo reports whether the host may go away now: another host stays.
func (s *site) mayGo() bool {
	stays := slices.ContainsFunc(s.c.sites, func(t *site) bool { return t != s && t.machine != nil && t.absent == nil })
	return stays && s.powered && s.machine != nil && s.present() && s.c.wasFounded() && !s.c.unsettled()
}

// mayBeGivenUp reports whether the host may be given up with all that it has: nobody is asked anything, and the others do without it.
func (s *site) mayBeGivenUp() bool {
	c, e := s.c, &s.engine
	return len(s.calls) == 0 && len(e.left) == 0 && len(s.lockers) == 0 && !s.leaving && s.batch == nil && s.stopped <= c.now &&
		c.oracle.state.Member(s.id) != nil && c.goesOn(s, s) && !e.asking() && !e.starting && !e.unready() &&
		!slices.ContainsFunc(e.clients, func(x *client) bool { return x.busy })
}

// bare reports whether the host has nothing that is lost with it, and the others do without it.
func (s *site) bare() bool {
	runs := slices.ContainsFunc(s.engine.containers, func(x *container) bool { return x.running })
	if runs || len(s.engine.networks) > 0 || !s.mayBeGivenUp() {
		return false
	}
	for i, u := range s.c.oracle.use {
		if u.on == s || s.held[i] {
			return false
		}
	}
	return true
}

// goAway has a host be away for a while, or until it is given up.
func (s *site) goAway(doomed bool) {
	c := s.c
	a := &absence{how: one(c.rnd, suspended, suspended, frozen, off), since: c.now, doomed: doomed, frames: one(c.rnd, 0, 3, 30, 300)}
	d := c.about(one(c.rnd, 10*time.Second, time.Minute, 10*time.Minute, time.Hour))
	if doomed {
		d = max(d, leastDoomed)
		c.giveUp(s, a)
	}
	a.until = c.now + d
	c.tracef("%s is %s for %v, with %d frames; doomed: %t", s, a.how, d, a.frames, doomed)
	switch {
	case a.how == off:
		s.powerOff()
	case a.how == suspended && c.chance(c.w.Restarts):
		s.kill()
	}
	if s.absent = a; a.how != off {
		s.stopped = a.until
		clear(s.ready)
	}
	if a.how == suspended && s.alarm > 0 {
		a.alarm, s.alarm = max(s.wakeAt-c.now, time.Microsecond), 0
	}
	c.after(d, func() { s.comeBack(a) })
}

// leastDoomed is how long a host is away that is given up: one that is away for much less asks nobody as it goes on.
const leastDoomed = 10 * time.Second

// comeBack ends the absence of a host, unless that was ended otherwise.
func (s *site) comeBack(a *absence) {
	c := s.c
	if s.absent != a || c.breach != nil {
		return
	}
	if a.doomed && a.until <= c.now {
		a.until = c.now + 10*time.Second
		s.stopped = max(s.stopped, a.until)
	}
	if wait := a.until - c.now; wait > 0 {
		c.after(wait, func() { s.comeBack(a) })
		return
	}
	away := time.Duration(float64(c.now-a.since) * s.rate)
	s.absent = nil
	c.tracef("%s goes on after %v", s, c.now-a.since)
	if c.chance(c.w.Offline) && !c.calm {
		s.offline = c.now + c.between(0, one(c.rnd, 3*time.Second, 40*time.Second))
	}
	if a.how == off {
		s.powerOn()
		return
	}
	if a.how == suspended {
		s.slept += away
	}
	if s.machine == nil {
		c.after(c.between(0, 3*time.Second), s.start)
		return
	}
	s.wakes, s.stopped = true, c.now
	missed := s.missed
	s.missed = nil
	if a.how == suspended {
		if s.overslept = away; a.alarm > 0 {
			s.wakeAt = c.now + a.alarm
			s.setAlarm()
		}
	}
	for _, ev := range missed {
		s.awake(ev)
	}
	if c.chance(c.w.Restarts) && s.machine != nil {
		s.after(c.between(0, one(c.rnd, 10*time.Millisecond, 3*time.Second)), func() {
			if s.absent == nil && !s.wakes {
				s.kill()
				c.after(c.between(0, 3*time.Second), s.start)
			}
		})
	}
}

// wakeUp gives the machine of a process that goes on its first event. It takes note of that first of all.
func (s *site) wakeUp(ev ipam.Event) {
	life, by := s.life, s.overslept
	s.wakes, s.overslept = false, 0
	if by > 0 {
		s.step(ipam.ClockSet{By: by})
	}
	if s.life == life {
		s.step(ev)
	}
	if s.life == life && s.batch == nil {
		s.c.oracle.learned(s)
	}
}

// giveUp has operators state that a host which is away is gone for good, again and again until that is agreed.
func (c *cluster) giveUp(s *site, a *absence) {
	id := s.id
	wait := c.between(10*time.Second, time.Minute)
	c.script(c.goes, func(t *script) {
		for t.sleep(wait); s.absent == a; t.sleep(10 * time.Second) {
			if g := c.oracle.state.Gone(id); g != nil && g.Forgotten {
				c.tracef("%s is given up", s)
				a.doomed = false
				return
			}
			if c.calm {
				c.clearLost() // which may be in its space: nobody else may get that before they are gone
			}
			switch at := c.anyPeer(); {
			case at == nil:
			case c.oracle.state.Member(id) != nil:
				at.call(&ipam.EvictRequest{Peer: id.String()}, nil)
			default:
				at.call(&ipam.ForgetRequest{Peer: id.String()}, nil)
			}
		}
	})
}

// awaken ends all absences, once those that are to be given up are. Those that cannot be since no majority is left are lost.
func (c *cluster) awaken() {
	for _, s := range c.sites {
		if a := s.absent; a != nil {
			a.until = min(a.until, c.now+c.between(0, 30*time.Second))
			if a.doomed {
				a.until = max(a.until, a.since+leastDoomed)
			}
			s.stopped = min(s.stopped, a.until)
			s.comeBack(a)
		}
	}
	c.wait(10*time.Minute, func() bool { return !slices.ContainsFunc(c.sites, func(s *site) bool { return s.absent != nil }) })
	for _, s := range c.sites {
		if s.absent == nil {
			continue
		}
		if c.goesOn(nil, nil) {
			c.fail("liveness", "%s cannot be given up", s)
		}
		s.end()
	}
}
