package ipamtest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
)

// absences are how hosts of some schedules are away for a while, and what they do when they are back: a host is suspended, and its
// clock that nobody sets stands still; a process alone is frozen; a host is off for long. Nobody believes them to be there
// meanwhile, and an operator may state that they are gone for good, which those survive that go on only with a majority. Like
// [habits] they have their own source of randomness. Chances are in ten thousandths.
type absences struct {
	rnd       *rand.Rand
	waits     bool // who boots goes on with a majority only
	weight    int  // of the fault
	recovers  int  // of the loss of a majority
	emptied   int  // of hosts that go away, those that nothing is left on
	forgotten int  // of those, those that are given up
	restarts  int  // of processes that go on, those that end right then and begin again; and of hosts that are suspended, those without a process
	offline   int  // of hosts that go on, those that have no network yet
	laden     int  // of hosts that are not emptied, those that are given up with all that they have
}

func drawAbsences(seed uint64) absences {
	h := absences{rnd: rand.New(rand.NewPCG(seed, 0xab5e4ce))}
	if h.rnd.IntN(3) > 0 {
		return h
	}
	h.waits = h.rnd.IntN(2) == 0
	h.weight = one(h.rnd, 0, 1, 2, 8)
	h.emptied, h.forgotten = one(h.rnd, 3000, 8000), one(h.rnd, 3000, 9000)
	h.restarts, h.offline = one(h.rnd, 0, 3000, 8000), one(h.rnd, 0, 5000, 10_000)
	if h.rnd.IntN(3) == 0 {
		h.recovers = one(h.rnd, 1, 4)
	}
	h.laden = one(h.rnd, 0, 3000, 9000)
	return h
}

// goLaden has hosts be given up with all that they have, again and again.
func (h *absences) goLaden() {
	h.waits, h.weight, h.recovers = true, one(h.rnd, 2, 8, 16), 0
	h.emptied, h.laden, h.forgotten = one(h.rnd, 0, 3000), 9000, 5000
	h.restarts, h.offline = one(h.rnd, 0, 3000), one(h.rnd, 0, 5000)
}

// change makes weather in which hosts are away. Some of it is quiet otherwise.
func (h *absences) change(w *Weather) {
	w.Config.BootAlone = !h.waits
	w.Nemesis[sleeps], w.Nemesis[recovers] = h.weight, h.recovers
	if h.weight+h.recovers == 0 {
		return
	}
	if w.Storm == 0 {
		w.Storm = one(h.rnd, 2*time.Second, 10*time.Second, time.Minute)
	}
	if h.rnd.IntN(2) == 0 {
		for _, f := range []fault{wipes, destroys, replaces, leaves, quits, drains, freezes, clockJumps, pools} {
			w.Nemesis[f] = 0
		}
	}
}

func (h *absences) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

func (h *absences) between(from, to time.Duration) time.Duration {
	return from + time.Duration(h.rnd.Int64N(int64(to-from)))
}

// late draws after how long somebody comes back who was lost.
func (h *absences) late() time.Duration {
	return 10*time.Second + time.Duration(h.rnd.ExpFloat64()*float64(2*time.Minute))
}

// absence is that of one host.
type absence struct {
	how    away
	since  time.Duration
	until  time.Duration
	alarm  time.Duration // in how long a tick was due, 0: none was
	frames int           // that its sockets take meanwhile
	least  time.Duration // when it ends at the earliest
	doomed bool          // an operator has it given up, and it is not there before it is
}

// away is how a host is.
type away uint8

const (
	suspended away = iota
	frozen         // its process alone
	off
)

var awayNames = []string{"suspended", "frozen", "off"}

// suspended reports whether nothing runs on the host.
func (s *site) suspended() bool { return s.absent != nil && s.absent.how == suspended }

// doomed reports whether the host is about to be given up.
func (s *site) doomed() bool { return s.absent != nil && s.absent.doomed }

// sleep has a host go away, as it is or once it is emptied.
func (s *site) sleep() {
	h := &s.c.absences
	if !s.mayGo() {
		return
	}
	if !h.chance(h.emptied) {
		laden := !s.c.w.Config.BootAlone && h.chance(h.laden) && s.mayBeGivenUp()
		s.goAway(laden)
		if laden {
			s.c.count["laden"]++
		}
		return
	}
	s.clear()
	s.packs = true
	s.packUp(s.engine.life, 10)
}

// packUp has a user remove what is left on a host, and then the host go away.
func (s *site) packUp(life uint64, tries int) {
	c, h := s.c, &s.c.absences
	c.after(h.between(0, 2*time.Second), func() {
		if s.engine.life != life || c.calm || !s.mayGo() {
			s.packs = false
			return
		}
		s.engine.removeAll()
		if s.machine == nil { // it crashed over that, and one that is to start cannot be frozen
			s.packs = false
			return
		}
		bare := s.bare()
		if !bare && tries > 0 {
			s.packUp(life, tries-1)
			return
		}
		s.packs = false
		s.goAway(!c.w.Config.BootAlone && bare && h.chance(h.forgotten))
	})
}

// mayGo reports whether the host may go away now: somebody stays.
func (s *site) mayGo() bool {
	stays := slices.ContainsFunc(s.c.sites, func(t *site) bool { return t != s && t.machine != nil && t.absent == nil })
	return stays && !s.outside() && s.powered && s.machine != nil && s.absent == nil && s.stopped <= s.c.now && s.c.wasFounded() && !s.c.unsettled()
}

// bare reports whether the host has nothing that is lost with it, and the others do without it.
func (s *site) bare() bool {
	c := s.c
	busy := len(s.calls) > 0 || len(s.engine.networks) > 0 || len(s.engine.left) > 0 || s.leaving || s.batch.pending
	for _, x := range s.engine.containers {
		busy = busy || x.busy || x.running
	}
	for _, x := range s.engine.clients {
		busy = busy || x.busy
	}
	if busy || len(s.lockers) > 0 || c.oracle.state.Member(s.id) == nil || !c.goesOn(s, s) {
		return false
	}
	for i, u := range c.oracle.use {
		if u.site == s.index+1 || c.oracle.of(s).held[i] {
			return false
		}
	}
	return true
}

// goAway has a host be away for a while, or until it is given up.
func (s *site) goAway(doomed bool) {
	c, h := s.c, &s.c.absences
	a := &absence{how: one(h.rnd, suspended, suspended, frozen, off), since: c.now, doomed: doomed}
	a.frames = one(h.rnd, 0, 3, 30, 300)
	d := time.Duration(h.rnd.ExpFloat64() * float64(one(h.rnd, 10*time.Second, time.Minute, 10*time.Minute, time.Hour)))
	if doomed {
		a.least = c.now + 10*time.Second // who is away for much less asks nobody as it goes on
		d = max(d, 10*time.Second)
		c.count["doomed"]++
		id := s.id
		c.after(h.between(10*time.Second, time.Minute), func() { c.giveUp(s, a, id) })
	}
	a.until = c.now + d
	c.count[awayNames[a.how]]++
	c.tracef("%s is %s for %v, with %d frames; doomed: %t", s, awayNames[a.how], d, a.frames, doomed)
	if a.how == off {
		s.powerOff()
		s.absent = a
	} else {
		if a.how == suspended && h.chance(h.restarts) {
			c.count["slept without its process"]++
			s.kill()
		}
		s.absent, s.stopped = a, a.until
		c.oracle.ended(s)
	}
	if a.how == suspended && s.alarm > 0 {
		a.alarm, s.alarm = max(s.wakeAt-c.now, time.Microsecond), 0
	}
	c.after(d, func() { s.comeBack(a) })
}

// comeBack ends the absence of a host, unless that was ended otherwise.
func (s *site) comeBack(a *absence) {
	c, h := s.c, &s.c.absences
	if s.absent != a || c.breach != nil {
		return
	}
	if wait := a.until - c.now; wait > 0 {
		c.after(wait, func() { s.comeBack(a) })
		return
	}
	if a.doomed {
		a.until += 10 * time.Second
		s.stopped = max(s.stopped, a.until)
		c.after(10*time.Second, func() { s.comeBack(a) })
		return
	}
	if a.how == suspended {
		s.slept += time.Duration(float64(c.now-a.since) * s.rate)
	}
	s.absent = nil
	c.tracef("%s goes on after %v", s, c.now-a.since)
	if h.chance(h.offline) && !c.calm {
		s.offline = c.now + h.between(0, one(h.rnd, 3*time.Second, 40*time.Second))
	}
	if a.how == off {
		s.powerOn()
		return
	}
	if s.machine == nil {
		c.after(h.between(0, 3*time.Second), s.start)
		return
	}
	s.wakes, s.stopped = true, c.now
	missed := s.missed
	s.missed = nil
	if a.how == suspended {
		s.overslept = time.Duration(float64(c.now-a.since) * s.rate)
		if a.alarm > 0 {
			s.wakeAt = c.now + a.alarm
			s.setAlarm()
		}
	}
	for _, ev := range missed {
		s.awake(ev)
	}
	if h.chance(h.restarts) && s.machine != nil {
		s.after(h.between(0, one(h.rnd, 10*time.Millisecond, 3*time.Second)), s.restartAwake)
	}
}

// restartAwake ends the process that went on, and begins it again.
func (s *site) restartAwake() {
	if c := s.c; s.absent == nil && !s.wakes {
		c.count["restarted as it woke"]++
		s.kill()
		c.after(c.absences.between(0, 3*time.Second), s.start)
	}
}

// checks reports whether the host's process has yet to find out whether its database is the latest.
func (s *site) checks() bool {
	return s.machine != nil && s.machine.Status(s.clock()).State == ipam.Checking
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
	if s.life == life && !s.batch.pending {
		s.c.oracle.learned(s, s.c.oracle.of(s))
	}
}

// giveUp has operators state that a host which is away is gone for good, again and again until that is agreed.
func (c *cluster) giveUp(s *site, a *absence, id peer.ID) {
	if s.absent != a || c.breach != nil {
		return
	}
	if g := c.oracle.state.Gone(id); g != nil && g.Forgotten {
		c.count["forgotten while away"]++
		c.tracef("%s is given up", s)
		a.doomed = false
		return
	}
	var live []*site
	for _, t := range c.sites {
		if t.machine != nil && t.absent == nil && t.cast == nil && !t.outside() && t.stopped <= c.now && t.machine.State().Member(t.id) != nil {
			live = append(live, t)
		}
	}
	if c.calm {
		c.clearLost() // which may be in its space: nobody else may get that before they are gone
	}
	if len(live) > 0 {
		at := one(c.absences.rnd, live...)
		if c.oracle.state.Member(id) != nil {
			at.call(&ipam.EvictRequest{Peer: id.String()}, nil)
		} else {
			at.call(&ipam.ForgetRequest{Peer: id.String()}, nil)
		}
	}
	c.after(10*time.Second, func() { c.giveUp(s, a, id) })
}

// awaken ends all absences, once those that are to be given up are. Those that cannot be since no majority is left are lost.
func (c *cluster) awaken() {
	for _, s := range c.sites {
		if a := s.absent; a != nil {
			a.until = max(min(a.until, c.now+c.absences.between(0, 30*time.Second)), a.least)
			s.stopped = min(s.stopped, a.until)
			s.comeBack(a)
		}
	}
	present := func() bool { return !slices.ContainsFunc(c.sites, func(s *site) bool { return s.absent != nil }) }
	if c.wait(10*time.Minute, present) {
		return
	}
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
