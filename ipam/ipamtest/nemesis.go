package ipamtest

import (
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
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
	reinstalls              // a plugin is removed with its data and installed again, with RINGLET_JOIN empty
	refounds                // a majority of those who founded the cluster by their list lose their databases at once
	quits                   // a host is emptied, and leaves while new networks may be made
	ghosts                  // messages of long ago arrive again
	reserves                // an operator excludes addresses, keeps one for a container, or ends that
	collapses               // all databases are lost at once, and an operator has one host begin again
	sleeps                  // a host is away for a while: see absences
	recovers                // a majority is lost for good, and an operator recovers the cluster: see outcast
	faults                  // how many there are
)

var faultNames = [faults]string{
	"parts", "isolates", "oneWay", "heals", "crashes", "reboots", "freezes", "clockJumps", "wipes", "destroys",
	"replaces", "evicts", "forgets", "drains", "undrains", "leaves", "pools", "replays",
	"reinstalls", "refounds", "quits", "ghosts", "reserves", "collapses", "sleeps", "recovers",
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
		if total > 0 && c.isUnited() && !c.unsettled() {
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

// happensThere reports whether a fault needs somebody on the host that it strikes.
func (f fault) happensThere() bool {
	switch f {
	case crashes, reboots, freezes, clockJumps, wipes, drains, undrains, leaves, pools, replays, reinstalls, quits, reserves, sleeps:
		return true
	default:
		return false
	}
}

// operated reports whether a fault is what an operator does on a host.
func (f fault) operated() bool {
	switch f {
	case wipes, drains, undrains, leaves, pools, reinstalls, quits, reserves, evicts, forgets, refounds:
		return true
	default:
		return false
	}
}

// happen has one fault strike one host.
func (c *cluster) happen(f fault, s *site) {
	if s.absent != nil && f.happensThere() || (s.cast != nil || s.outside()) && f.operated() {
		return // there is nobody
	}
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
		s.crash()
	case reboots:
		damaged := c.w.Nemesis[wipes] > 0 && c.customs.chance(c.customs.damaged) && s.mayLose()
		if s.powerOff(); damaged {
			c.count["damaged"]++
			s.bereft()
		}
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
			s.engine.restart()
		}
	case reinstalls:
		s.reinstall()
	case refounds:
		c.refoundByList()
	case collapses:
		c.collapse()
	case sleeps:
		s.sleep()
	case recovers:
		c.loseMajority(s)
	case quits:
		s.quit()
	case reserves:
		c.keepBack(s)
	case ghosts:
		c.haunt()
	default:
		c.operate(f, s)
	}
}

func (c *cluster) heal() {
	for i := range c.cut {
		clear(c.cut[i])
	}
	for _, s := range c.sites {
		s.offline = 0
	}
}

// wipe loses the database while the host runs on. Until slot 1 is decided and known that could bring two clusters about, which no
// protocol can help: an acceptor would have forgotten what it accepted.
func (s *site) wipe() {
	if !s.mayLose() {
		return
	}
	untold := s.c.strains.chance(s.c.strains.untold) && s.engine.hasNetwork() // by which it can know that it had a cluster
	s.bereft()
	if untold {
		s.tellNothing()
	}
	s.restartSoon()
}

// mayLose reports whether the database of a host that runs on may be lost. A hole is left: without the engine's socket the new peer
// takes over the space of its former self and hands out what runs there, within five schedules (docs/limits.md).
func (s *site) mayLose() bool {
	return s.c.wasFounded() && s.powered && !s.outside() && !s.spared() && s.cfg.AwaitInventory // else nobody could tell what lives on
}

// bereft ends the process of a host that runs on, and loses its database with all that only this knew.
func (s *site) bereft() {
	s.kill()
	s.lose()
	s.settled, s.leaving, s.forced = false, false, false
	s.deaf = 0 // the process that starts draws anew
	s.forgetClients()
	s.cfg.Join = true
}

// destroy ends a host for good.
func (s *site) destroy() {
	if s.c.wasFounded() && !s.dead && !s.spared() {
		s.end()
	}
}

func (s *site) end() {
	s.powerOff()
	s.dead, s.absent = true, nil
	s.engine.destroyed()
	s.settled, s.leaving, s.forced = false, false, false
	s.lostPeers = append(s.lostPeers, s.peers...)
	s.peers = nil
	s.lose()
}

// lose loses the database.
func (s *site) lose() {
	s.disk = machinetest.Disk{}
	s.databases++
	s.c.losses = append(s.c.losses, loss{s.id, s.c.now, s.c.oracle.state.Member(s.id) == nil})
	s.c.oracle.lost(s)
	s.id, s.cast, s.rejoined = peer.None, nil, 0
	v := s.c.oracle.of(s)
	v.outside, v.told = false, map[int]time.Duration{}
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
		r = &ipam.DrainRequest{Undo: f == undrains, Also: s.index%2 == 0}
	case leaves:
		if !c.goesOn(nil, s) {
			return
		}
		s.leaving = true
		c.count["told to leave"]++
		leave := &ipam.LeaveRequest{Force: c.rnd.IntN(2) == 0}
		s.forced = s.forced || leave.Force
		r = leave
	case pools:
		subnet := one(c.rnd, c.w.Subnets...)
		if c.rnd.IntN(2) == 0 {
			r = &ipam.PoolCreation{CIDR: subnet}
			break
		}
		c.removePool(s, subnet)
	default: // nothing an operator does
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

// FaultNames returns the names of the faults, in the order of [Weather.Nemesis].
func FaultNames() []string { return faultNames[:] }
