package ipamtest

import (
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// fault is something bad that happens, or somebody who interferes.
type fault int

// The faults.
const (
	parts      fault = iota // the network falls into two
	isolates                // one host hears nobody
	oneWay                  // one host does not hear another
	heals                   // the network is whole
	crashes                 // a plugin's process ends, and begins again
	reboots                 // a host loses its power for a while
	freezes                 // a process does nothing for a while
	clockJumps              // a clock is set, which a process notices once it starts again: within its life it is monotonic
	wipes                   // a database is lost, and containers live on
	destroys                // a host is lost for good, with its disk
	replaces                // such a host is made anew, with an empty disk
	evicts                  // an operator evicts a peer, dead or alive
	forgets                 // an operator forgets a destroyed host
	drains                  // an operator drains a peer
	undrains                // and thinks better of it
	leaves                  // a peer leaves
	pools                   // an operator makes or removes a pool
	replays                 // an engine starts again under its containers
	faults                  // how many there are
)

var faultNames = [faults]string{
	"parts", "isolates", "oneWay", "heals", "crashes", "reboots", "freezes", "clockJumps", "wipes", "destroys",
	"replaces", "evicts", "forgets", "drains", "undrains", "leaves", "pools", "replays",
}

// nemesis has a fault happen, again and again.
func (c *cluster) nemesis() {
	if c.w.Storm == 0 {
		return
	}
	c.after(c.about(c.w.Storm), func() {
		if c.calm {
			return
		}
		total := 0
		for _, n := range c.w.Nemesis {
			total += n
		}
		if total > 0 {
			n := c.rnd.IntN(total)
			for f, w := range c.w.Nemesis {
				if n -= w; n < 0 {
					c.happen(fault(f), one(c.rnd, c.sites...))
					break
				}
			}
		}
		c.nemesis()
	})
}

// happen has one fault strike one host.
func (c *cluster) happen(f fault, s *site) {
	c.tracef("%s strikes %s", faultNames[f], s)
	c.count[faultNames[f]]++
	switch f {
	case parts:
		side := c.rnd.Uint32()
		for i := range c.cut {
			for j := range c.cut[i] {
				c.cut[i][j] = (side>>i)&1 != (side>>j)&1
			}
		}
	case isolates:
		for i := range c.cut {
			c.cut[i][s.index], c.cut[s.index][i] = i != s.index, i != s.index
		}
	case oneWay:
		if t := one(c.rnd, c.sites...); t != s {
			c.cut[t.index][s.index] = true
		}
	case heals:
		c.heal()
	case crashes:
		s.kill()
		s.restartSoon()
	case reboots:
		s.powerOff()
		c.after(c.about(20*time.Second), s.powerOn)
	case freezes:
		s.stopped = max(s.stopped, c.now+c.about(one(c.rnd, time.Second, time.Minute)))
	case clockJumps:
		s.skewed += time.Duration(one(c.rnd, -1, 1)) * c.about(one(c.rnd, time.Second, time.Hour))
	case wipes:
		s.wipe()
	case destroys:
		s.destroy()
	case replaces:
		s.replace()
	case replays:
		if s.powered {
			s.engine.replay()
		}
	default:
		c.operate(f, s)
	}
}

func (c *cluster) heal() {
	for i := range c.cut {
		clear(c.cut[i])
	}
}

// wipe loses the database while the host runs on. Until slot 1 is decided and
// known that could bring two clusters about, which no protocol can help: an
// acceptor would have forgotten what it accepted.
func (s *site) wipe() {
	if !s.c.founded() || !s.powered || s.spared() {
		return
	}
	s.kill()
	s.lose()
	s.settled, s.leaving = false, false
	s.engine.forgetClients()
	s.cfg.Join = true
	s.restartSoon()
}

// founded reports whether all hosts that are to found the cluster know slot 1.
func (c *cluster) founded() bool {
	for _, s := range c.sites[:c.w.Hosts] {
		if !s.dead && s.founding() {
			return false
		}
	}
	return true
}

// founding reports whether the host may still take part in slot 1.
func (s *site) founding() bool { return !s.settled }

// spared reports whether the loss of one more database could lose a majority
// for good, of the voters or of those who know slot 1.
func (s *site) spared() bool {
	c := s.c
	unsettled := 1
	for _, t := range c.sites[:c.w.Hosts] {
		if !t.settled && t != s {
			unsettled++
		}
	}
	if 2*unsettled >= c.w.Hosts {
		return true
	}
	return !c.goesOn(s, nil)
}

// goesOn reports whether those who have their databases will have a majority,
// also when those have left who are about to, if that of one host were lost
// and another one left.
func (c *cluster) goesOn(lost, leaves *site) bool {
	if !c.rosterGoesOn(c.oracle.state.Roster, lost, leaves) {
		return false
	}
	for _, s := range c.sites {
		// What only the one who is lost knows is lost with it.
		if s != lost && s.machine != nil && s.settled && !c.rosterGoesOn(s.machine.State().Roster, lost, leaves) {
			return false
		}
	}
	return true
}

func (c *cluster) rosterGoesOn(roster []chronicle.Member, lost, leaves *site) bool {
	for _, departed := range []bool{false, true} {
		var voters []*site // nil: its database is lost
		for _, m := range roster {
			s := c.bearer(m.ID)
			if departed && s != nil && (s.leaving || s == leaves) || len(voters) == chronicle.MaxVoters {
				continue
			}
			if s == lost {
				s = nil
			}
			voters = append(voters, s)
		}
		for range c.stillborn(lost) {
			if len(voters) < chronicle.MaxVoters {
				voters = append(voters, nil)
			}
		}
		live, votes := 0, 0
		for i, s := range voters {
			n := 1
			if i == 0 && len(voters)%2 == 0 {
				n = 2
			}
			if votes += n; s != nil {
				live += n
			}
		}
		if 2*live <= votes {
			return false
		}
	}
	return true
}

// stillborn returns the peers whose databases were lost, or that of a host if
// it were, before they were admitted, so that they may still be.
func (c *cluster) stillborn(lost *site) (ids []peer.ID) {
	if lost != nil && c.oracle.state.Member(lost.id) == nil {
		ids = append(ids, lost.id)
	}
	for _, l := range c.losses {
		if l.stillborn && c.now-l.at < 2*time.Minute && c.oracle.state.Member(l.id) == nil {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// loss is the loss of a peer's database.
type loss struct {
	id        peer.ID
	at        time.Duration
	stillborn bool // it was not in the roster
}

// bearer returns the host that has the peer's database, or nil.
func (c *cluster) bearer(id peer.ID) *site {
	for _, s := range c.sites {
		if s.id == id && !s.dead {
			return s
		}
	}
	return nil
}

// destroy ends a host for good.
func (s *site) destroy() {
	if !s.c.founded() || s.dead || s.spared() {
		return
	}
	s.powerOff()
	s.dead = true
	s.engine.destroyed()
	s.settled, s.leaving = false, false
	s.lostPeers = append(s.lostPeers, s.peers...)
	s.peers = nil
	s.lose()
}

// lose loses the database.
func (s *site) lose() {
	s.disk = Disk{}
	s.c.losses = append(s.c.losses, loss{s.id, s.c.now, s.c.oracle.state.Member(s.id) == nil})
	s.c.oracle.lost(s)
	s.id = peer.None
}

// replace makes a destroyed host anew.
func (s *site) replace() {
	if !s.dead {
		return
	}
	s.dead = false
	s.cfg.Join = true
	s.powerOn()
}

// operate has an operator do something on a host.
func (c *cluster) operate(f fault, s *site) {
	target := c.oracle.anyMember(one(c.rnd, c.sites...))
	var r ipam.Request
	switch f {
	case evicts:
		r = &ipam.EvictRequest{Peer: target}
	case forgets:
		if target = c.lostPeer(); c.w.Rash {
			target = c.oracle.anyMember(one(c.rnd, c.sites...))
		}
		if target == "" {
			return
		}
		r = &ipam.ForgetRequest{Peer: target}
	case drains, undrains:
		r = &ipam.DrainRequest{Undo: f == undrains}
	case leaves:
		if !c.goesOn(nil, s) {
			return
		}
		s.leaving = true
		c.count["told to leave"]++
		r = &ipam.LeaveRequest{Force: c.rnd.IntN(2) == 0}
	case pools:
		subnet := one(c.rnd, c.w.Subnets...)
		r = &ipam.PoolRemoval{Pool: subnet.String()}
		if c.rnd.IntN(2) == 0 {
			r = &ipam.PoolCreation{CIDR: subnet}
		}
	}
	if r != nil {
		s.call(r, nil)
	}
}

// lostPeer returns the ID of a peer whose host was destroyed, or nothing.
func (c *cluster) lostPeer() string {
	var ids []peer.ID
	for _, s := range c.sites {
		ids = append(ids, s.lostPeers...)
	}
	if len(ids) == 0 {
		return ""
	}
	return one(c.rnd, ids...).String()
}

// anyMember returns the ID of the peer on the host, or of any member.
func (o *oracle) anyMember(s *site) string {
	if roster := o.state.Roster; o.c.rnd.IntN(4) == 0 && len(roster) > 0 {
		return one(o.c.rnd, roster...).ID.String()
	}
	return s.id.String()
}

// FaultNames returns the names of the faults, in the order of
// [Weather.Nemesis].
func FaultNames() []string { return faultNames[:] }
