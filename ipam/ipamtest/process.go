package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// step gives the machine an event and sees to what follows from it.
func (s *site) step(ev ipam.Event) {
	c := s.c
	if c.breach != nil {
		return
	}
	c.steps++
	c.tracef("%s <- %s", s, eventText{ev})
	fx := s.machine.Step(s.clock(), ev)
	c.heed(s, fx)
	for i := range fx.Note {
		c.tracef("%s notes %+v", s, &fx.Note[i])
		switch kind := fx.Note[i].Kind; {
		case kind == ipam.NoteParted:
			s.engine.listNetworks()
		case kind == ipam.NoteDoubted && c.w.Modern, kind == ipam.NoteUnclear && c.w.Bare && c.chance(c.w.Tells):
			c.after(c.between(0, 2*time.Second), s.engine.look) // as its peer cannot tell without
		}
	}
	if m, ok := ev.(*ipam.Message); ok {
		if q, ok := m.Frame.Body.(wire.InUse); ok {
			c.oracle.warned(s, m.Frame, q)
		}
	}
	s.order(fx.WakeAt)
	if s.mayCrash() && c.chance(c.w.CrashInStep) {
		s.crash()
		return
	}
	if c.w.Hasty {
		life := s.life
		s.carryOut(fx)
		if s.life == life {
			s.commit(fx.Save)
		}
		return
	}
	if s.batch == nil {
		if !c.chance(c.w.Group) {
			s.commit(fx.Save)
			s.carryOut(fx)
			return
		}
		s.batch = &ipam.Effects{}
		s.after(c.about(5*time.Millisecond), s.flushLater)
	}
	s.keep(fx)
}

// keep adds the effects to the batch. What they hold is valid until the next step only.
func (s *site) keep(fx *ipam.Effects) {
	b := s.batch
	for _, r := range fx.Save {
		r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
		b.Save = append(b.Save, r)
	}
	for _, m := range fx.Send {
		m.Frame = slices.Clone(m.Frame)
		b.Send = append(b.Send, m)
	}
	b.Reply = append(b.Reply, fx.Reply...)
	if fx.Beat != nil {
		b.Beat = slices.Clone(fx.Beat)
	}
}

// flushLater flushes once the process is not stopped.
func (s *site) flushLater() {
	wait := s.stopped - s.c.now
	if wait <= 0 {
		s.flush()
		return
	}
	if s.absent != nil {
		wait = min(wait, time.Second)
	}
	s.after(wait, s.flushLater)
}

// flush commits what steps have left to be committed together.
func (s *site) flush() {
	b := s.batch
	s.batch = nil
	s.commit(b.Save)
	s.carryOut(b)
}

// commit makes records durable.
func (s *site) commit(save []ipam.Record) {
	s.disk.Commit(save)
	s.c.oracle.committed(s, save)
}

// carryOut does what had to wait for the disk. The process may end at any point of it.
func (s *site) carryOut(fx *ipam.Effects) {
	crash := -1
	if c := s.c; s.mayCrash() && c.chance(c.w.CrashInCommit) {
		crash = c.rnd.IntN(len(fx.Send) + len(fx.Reply) + 1)
	}
	if fx.Beat != nil {
		s.beat = slices.Clone(fx.Beat)
	}
	for i, m := range fx.Send {
		if i == crash {
			s.crash()
			return
		}
		s.send(m)
	}
	for i, r := range fx.Reply {
		if len(fx.Send)+i == crash {
			s.crash()
			return
		}
		s.answer(r)
	}
}

// answer brings a reply to its caller.
func (s *site) answer(r ipam.Reply) {
	i := slices.IndexFunc(s.calls, func(w call) bool { return w.id == r.Call })
	if i < 0 {
		s.c.fail("reply", "%s answers call %d, which nobody made or which was answered", s, r.Call)
		return
	}
	done := s.calls[i].done
	s.calls = slices.Delete(s.calls, i, i+1)
	s.c.tracef("%s -> %s", s, replyText(r))
	if databases := s.databases; done != nil {
		s.c.after(s.c.between(0, time.Millisecond), func() {
			if s.databases > databases { // the process ended with its database before the answer had left
				done(ipam.Reply{}, false)
				return
			}
			done(r, true)
		})
	}
}

// order sees to a tick at the given time of the host's clock.
func (s *site) order(at time.Time) {
	if at.IsZero() {
		return
	}
	c := s.c
	d := max(at.Sub(s.clock()), 0)
	s.wakeAt = c.now + min(time.Duration(float64(d)/s.rate), 24*time.Hour) + time.Microsecond
	if s.alarm == 0 || s.wakeAt < s.alarm {
		s.setAlarm()
	}
}

func (s *site) setAlarm() {
	at := s.wakeAt
	s.alarm = at
	s.after(at-s.c.now, func() {
		if s.alarm != at {
			return
		}
		s.alarm = 0
		if s.c.now < s.wakeAt {
			s.setAlarm()
			return
		}
		s.awake(ipam.Tick{})
	})
}
