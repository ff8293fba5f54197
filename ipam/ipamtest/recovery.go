package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// How clusters go on that have lost a majority, or all databases: an operator sees to it.

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
	survives := s.machine != nil && s.present() && s.cast == nil && !s.leaving && s.batch == nil && state.Member(s.id) != nil &&
		s.machine.State().Cluster == state.Cluster && s.machine.State().Slot == state.Slot && s.machine.Status(s.clock()).State != ipam.Checking
	if !survives || !c.wasFounded() || c.ordering || majority(state.Roster, func(id peer.ID) bool { return id == s.id }) ||
		slices.ContainsFunc(c.sites, func(t *site) bool { return t.cast != nil || t.doomed() || t.outside || !t.cfg.AwaitInventory }) {
		return
	}
	for _, t := range c.sites {
		t.cfg.Formation = ipam.Formation{}
		if t == s || t.dead {
			continue
		}
		t.cast = &outcast{roster: slices.Clone(state.Roster)}
		slept := t.absent != nil
		t.absent = nil
		if c.rnd.IntN(3) > 0 || slept {
			t.powerOff()
		} else {
			t.kill() // its containers live
		}
	}
	c.recoverOn(s, func() {
		for _, t := range c.sites {
			if t.cast != nil {
				t.comeBackLate(t.cast)
			}
		}
	})
}

// recoverOn has an operator recover a cluster on the host that is all that is left, again and again until that is done.
func (c *cluster) recoverOn(s *site, done func()) {
	c.tracef("%s is all that is left", s)
	c.recovering = true
	cluster := s.machine.State().Cluster
	c.script(c.goes, func(t *script) {
		for t.sleep(c.between(5*time.Second, 15*time.Second)); s.machine == nil || s.machine.State().Cluster == cluster; t.sleep(5 * time.Second) {
			if s.cfg.Spoken == olderLevel && s.machine != nil && c.oracle.state.Level > olderLevel {
				c.upgrade(s) // it can do nothing more, and tells the operator so
			}
			c.survivor = s
			r, ok := t.ask(s, &ipam.RecoverRequest{})
			if ok && r.Err == nil {
				break // also where it was alone before
			}
			if !ok || !c.calm || s.machine == nil {
				continue
			}
			// It may have a majority as far as it knows, and learns better once it is used.
			roster := s.machine.State().Roster
			if i := slices.IndexFunc(roster, func(m chronicle.Member) bool { return m.ID != s.id }); i >= 0 {
				t.ask(s, &ipam.EvictRequest{Peer: roster[i].ID.String()})
			}
		}
		c.survivor, c.recovering = nil, false
		done()
	})
}

// goes reports whether the schedule goes on.
func (c *cluster) goes() bool { return c.breach == nil }

// comeBackLate has a host that was lost come back as it was, or with its data removed.
func (s *site) comeBackLate(o *outcast) {
	c := s.c
	lost := func() bool { return s.cast == o && !c.calm && c.breach == nil }
	c.script(lost, func(t *script) {
		late := func() {
			t.sleep(c.late())
			for s.absent != nil { // who comes to it finds it asleep
				t.sleep(10 * time.Second)
			}
		}
		late()
		back := func(id peer.ID) bool {
			u := c.bearer(id)
			return u != nil && (u == s || u.cast != nil && u.cast.back)
		}
		if c.rnd.IntN(4) > 0 && !majority(o.roster, back) && !c.unsettled() {
			o.back = true
			c.tracef("%s is back, although it was lost for good", s)
			s.powerOn()
			s.start()
			c.script(lost, s.recoverBeside)
			late()
		}
		s.cure()
	})
}

// recoverBeside has an operator try to recover the cluster on a host that sees one which has done so.
func (s *site) recoverBeside(t *script) {
	c := s.c
	for {
		t.sleep(5 * time.Second)
		if c.unsettled() || s.machine == nil || !s.present() || !slices.ContainsFunc(c.sites, func(u *site) bool {
			b := s.believed[u.index]
			return u.cast == nil && b.alive && b.id == u.id && s.machine.State().Member(u.id) != nil
		}) {
			continue
		}
		life := s.life
		if r, ok := t.ask(s, &ipam.RecoverRequest{}); ok && r.Err == nil && s.life == life {
			c.fail("I3", "%s recovers the cluster beside one that has", s)
		}
	}
}

// cure has an operator remove the data of a host that is not to have come back as it was.
func (s *site) cure() {
	if s.bereft(); s.powered {
		s.restartSoon()
	} else {
		s.powerOn()
	}
}

// cureAll ends the recovery that there is, and cures all that were lost by one.
func (c *cluster) cureAll() {
	c.awaitRecovery()
	for _, s := range c.sites {
		if s.cast != nil {
			s.cure()
			c.pass(10 * time.Millisecond) // what was answered before is in use
		}
	}
}

func (c *cluster) awaitRecovery() {
	if !c.wait(10*time.Minute, func() bool { return !c.recovering }) {
		c.fail("liveness", "the cluster cannot be recovered")
	}
}

// recover loses all hosts but one for good, and has an operator recover the cluster there. Then other hosts take their places.
func (c *cluster) recover() {
	var rest, leaving []*site
	for s := range c.running() {
		switch {
		case s.outside || s.machine.State().Member(s.id) == nil:
		case s.leaving:
			leaving = append(leaving, s)
		default:
			rest = append(rest, s)
		}
	}
	if len(rest) == 0 {
		rest = leaving // who is the last one stays
	}
	if len(rest) == 0 {
		return
	}
	survivor := one(c.rnd, rest...)
	for _, s := range c.sites {
		if s != survivor && !s.dead {
			s.end()
		}
	}
	if !c.goesOn(nil, nil) { // else it decides alone
		c.recoverOn(survivor, func() {})
		if c.awaitRecovery(); len(c.oracle.state.Roster) != 1 {
			c.fail("liveness", "%s has recovered the cluster, and is not alone", survivor)
		}
	}
	for _, s := range c.sites {
		s.cfg.Formation = ipam.Formation{}
		s.replace()
	}
	c.pass(time.Minute)
}

// buryTheDead has an operator evict and forget the peers of destroyed hosts, and evict the former selves of those that have left:
// nobody else will.
func (c *cluster) buryTheDead() {
	for _, m := range slices.Clone(c.oracle.state.Roster) {
		if s, at := c.hostOf(m.ID), c.anyPeer(); s != nil && at != nil && s.leaving && s.id != m.ID {
			c.ask(at, &ipam.EvictRequest{Peer: m.ID.String()})
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
				c.clearLost()
				c.ask(at, &ipam.ForgetRequest{Peer: id.String()})
				c.pass(10 * time.Second) // some may still believe it to live
			}
		}
	}
}

// anyPeer returns a host with a peer that is in the roster, or nil.
func (c *cluster) anyPeer() *site {
	var live []*site
	for s := range c.running() {
		if s.cast == nil && s.present() && s.machine.State().Member(s.id) != nil {
			live = append(live, s)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return one(c.rnd, live...)
}

// collapse loses all databases at once, under the containers of all hosts. Once the plugin runs on all of them again, an operator
// has one begin the cluster again. What a host has that cannot be seen in the meantime, the others find out too late; so for now
// all can, and none is older than what the cluster may agree to speak.
func (c *cluster) collapse() {
	if !c.wasFounded() || c.ordering || slices.ContainsFunc(c.sites, func(s *site) bool { return !s.present() || !s.cfg.AwaitInventory }) {
		return
	}
	c.beginning = true
	c.heal()
	var hosts []*site
	for _, s := range c.sites {
		s.peers, s.lostPeers = nil, nil
		if !s.dead {
			hosts = append(hosts, s)
			s.bereft()
			s.stranded, s.cfg.Formation = false, ipam.Formation{}
		}
	}
	c.losses, c.past, c.recorded = nil, nil, nil
	c.collapses++
	c.oracle.collapsed()
	for _, s := range hosts {
		if s.powerOn(); s.machine == nil {
			s.restartSoon()
		}
	}
	c.script(c.goes, func(t *script) {
		t.sleep(c.between(20*time.Second, time.Minute))
		// One without networks would be taken for the first host of all, and begin at once.
		old := slices.DeleteFunc(slices.Clone(hosts), func(s *site) bool { return !s.engine.hasNetwork() })
		if len(old) == 0 {
			old = hosts
		}
		c.beginner = one(c.rnd, old...)
		c.beginner.cfg.Join, c.beginner.cfg.FoundAlone = false, true
		c.beginner.crash()
		for t.sleep(time.Second); slices.ContainsFunc(c.sites, (*site).begins); {
			t.sleep(time.Second)
		}
		for _, s := range c.sites {
			s.cfg.FoundAlone = false
		}
		c.beginning = false
		c.count["begun again"]++
	})
}

// begins reports whether a host is not in the new cluster yet, or has yet to take in what it has.
func (s *site) begins() bool {
	return !s.dead && (!s.settled || s.machine == nil || s.machine.AwaitsLists())
}
