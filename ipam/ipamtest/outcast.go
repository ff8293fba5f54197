package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// outcast is what a host is that was lost with a majority, for good as an operator said who recovered the cluster. It may come back
// as it was, which it should not: what is its own stays so, but it is in a cluster that is no more until its data is removed.
type outcast struct {
	roster []chronicle.Member // of which it has one vote, or two
	back   bool
}

// loseMajority loses all hosts but one that does not have a majority alone, and has an operator recover the cluster there. Those
// that are lost knew nothing that this one does not, and of those that come back there are never so many that they could go on.
func (c *cluster) loseMajority(s *site) {
	state := c.oracle.state
	survives := s.machine != nil && s.absent == nil && s.stopped <= c.now && s.cast == nil && !s.leaving && !s.batch.pending && state.Member(s.id) != nil &&
		s.machine.State().Cluster == state.Cluster && s.machine.State().Slot == state.Slot && !s.checks()
	if !survives || !c.wasFounded() || c.unsettled() || c.ordering || votes(state.Roster, func(m chronicle.Member) bool { return m.ID == s.id }) ||
		slices.ContainsFunc(c.sites, func(t *site) bool { return t.cast != nil || t.doomed() || t.outside() || !t.cfg.AwaitInventory }) {
		return
	}
	c.recovering = true
	c.count["majority lost midway"]++
	c.tracef("%s is all that is left", s)
	for _, t := range c.sites {
		t.cfg.Formation = ipam.Formation{}
		if t == s || t.dead {
			continue
		}
		t.cast = &outcast{roster: slices.Clone(state.Roster)}
		slept := t.absent != nil
		t.absent = nil
		if c.absences.rnd.IntN(3) > 0 || slept {
			t.powerOff()
		} else {
			t.kill() // its containers live
		}
	}
	c.recoverSoon(s, s.machine.State().Cluster)
}

// votes reports whether those of a roster have a majority of it.
func votes(roster []chronicle.Member, has func(chronicle.Member) bool) bool {
	return majority(chronicle.VotersOf(roster), func(id peer.ID) bool {
		return has(roster[slices.IndexFunc(roster, func(m chronicle.Member) bool { return m.ID == id })])
	})
}

// recoverSoon has an operator recover a cluster on a host, again and again until that is done.
func (c *cluster) recoverSoon(s *site, cluster [16]byte) {
	c.after(c.absences.between(5*time.Second, 15*time.Second), func() {
		if c.breach != nil {
			return
		}
		if s.isOutdated() {
			s.upgrade() // as it tells the operator to
		}
		if s.machine == nil || s.machine.State().Cluster == cluster {
			c.survivor = s
			s.call(&ipam.RecoverRequest{}, nil)
			c.recoverSoon(s, cluster)
			return
		}
		c.survivor, c.recovering = nil, false
		c.count["recovered midway"]++
		for _, t := range c.sites {
			if t.cast != nil {
				c.after(c.absences.late(), func() { t.comeBackLate(t.cast) })
			}
		}
	})
}

// comeBackLate has a host that was lost come back as it was, or with its data removed.
func (s *site) comeBackLate(o *outcast) {
	c, h := s.c, &s.c.absences
	if o == nil || s.cast != o || c.breach != nil || c.calm {
		return
	}
	if s.absent != nil { // who comes to it finds it asleep
		c.after(10*time.Second, func() { s.comeBackLate(o) })
		return
	}
	back := func(m chronicle.Member) bool {
		t := c.bearer(m.ID)
		return t != nil && (t == s || t.cast != nil && t.cast.back)
	}
	if o.back || h.rnd.IntN(4) == 0 || votes(o.roster, back) || c.unsettled() {
		s.cure()
		return
	}
	o.back = true
	c.count["came back after recovery"]++
	c.tracef("%s is back, although it was lost for good", s)
	s.powerOn()
	s.start()
	s.recoverBeside(o)
	c.after(c.absences.late(), func() { s.comeBackLate(o) })
}

// recoverBeside has an operator try to recover the cluster on a host that sees one which has done so.
func (s *site) recoverBeside(o *outcast) {
	c := s.c
	c.after(5*time.Second, func() {
		if s.cast != o || c.breach != nil || c.calm || c.unsettled() {
			return
		}
		s.recoverBeside(o)
		sees := s.machine != nil && s.absent == nil && s.stopped <= c.now && slices.ContainsFunc(c.sites, func(t *site) bool {
			b := s.believed[t.index]
			return t.cast == nil && b.alive && b.id == t.id && s.machine.State().Member(t.id) != nil
		})
		if !sees {
			return
		}
		life := s.life
		s.call(&ipam.RecoverRequest{}, func(r ipam.Reply, ok bool) {
			switch {
			case !ok || s.life != life:
			case r.Err == nil:
				c.fail("I3", "%s recovers the cluster beside one that has", s)
			default:
				c.count["recovery refused"]++
			}
		})
	})
}

// cure has an operator remove the data of a host that is not to have come back as it was.
func (s *site) cure() {
	s.c.count["cured"]++
	s.bereft()
	if s.powered {
		s.restartSoon()
	} else {
		s.powerOn()
	}
}

// cureAll ends the recovery that there is, and cures all that were lost by one.
func (c *cluster) cureAll() {
	if !c.wait(10*time.Minute, func() bool { return !c.recovering }) {
		c.fail("liveness", "the cluster cannot be recovered")
	}
	for _, s := range c.sites {
		if s.cast != nil {
			s.cure()
			c.pass(10 * time.Millisecond) // what was answered before is in use
		}
	}
}
