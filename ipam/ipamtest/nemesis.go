package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
)

// nemesis is a fault that strikes a host, or what operators do in bad weather.
type nemesis struct {
	name  string
	needs need
	does  func(c *cluster, s *site)
}

// need is what must be so on the host, else nothing happens.
type need uint8

const (
	there need = 1 << iota // it is not away
	ours                   // its peer was neither given up nor lost: operators do something with it
	rare                   // (the weather seldom has it)
)

const faults = 26 // how many there are

// nemeses are the faults, in the order of [Storms.Nemesis].
func nemeses() [faults]nemesis {
	return [faults]nemesis{
		{"parts", 0, func(c *cluster, _ *site) { // the network falls into two
			c.heal()
			side := c.rnd.Uint32()
			c.sever(func(s, t *site) bool { return (side>>s.index)&1 != (side>>t.index)&1 })
		}},
		{"isolates", 0, func(c *cluster, s *site) { c.sever(func(t, u *site) bool { return (t == s) != (u == s) }) }},
		{"oneWay", 0, func(c *cluster, s *site) { // it does not hear another one
			from := one(c.rnd, c.sites...)
			c.sever(func(t, u *site) bool { return t == from && u == s && t != u })
		}},
		{"heals", 0, func(c *cluster, _ *site) { c.heal() }},
		{"crashes", there, func(_ *cluster, s *site) { s.crash() }},
		{"reboots", there, (*cluster).reboot},
		{"freezes", there, func(c *cluster, s *site) {
			s.stopped = max(s.stopped, c.now+c.about(one(c.rnd, time.Second, time.Minute)))
		}},
		// A process notices once it starts again: within its life its clock is monotonic.
		{"clockJumps", there, func(c *cluster, s *site) {
			s.skewed += time.Duration(one(c.rnd, -1, 1)) * c.about(one(c.rnd, time.Second, time.Hour))
		}},
		{"wipes", there | ours, func(_ *cluster, s *site) { s.wipe(false) }},
		{"destroys", 0, func(c *cluster, s *site) {
			if c.wasFounded() && !s.dead && !s.spared() {
				s.end()
			}
		}},
		{"replaces", 0, func(_ *cluster, s *site) { s.replace() }},
		{"evicts", ours, func(c *cluster, s *site) { s.call(&ipam.EvictRequest{Peer: c.anyMember()}, nil) }}, // dead or alive
		{"forgets", ours, func(c *cluster, s *site) {
			if target := c.forgettable(); target != "" {
				s.call(&ipam.ForgetRequest{Peer: target}, nil)
			}
		}},
		{"drains", there | ours, func(_ *cluster, s *site) { s.call(&ipam.DrainRequest{Also: s.index%2 == 0}, nil) }},
		{"undrains", there | ours, func(_ *cluster, s *site) { s.call(&ipam.DrainRequest{Undo: true, Also: s.index%2 == 0}, nil) }},
		{"leaves", there | ours, func(c *cluster, s *site) { s.leave(c.rnd.IntN(2) == 0) }},
		{"pools", there | ours, func(c *cluster, s *site) { // an operator makes or removes one
			if subnet := one(c.rnd, c.w.Subnets...); c.rnd.IntN(2) == 0 {
				s.call(&ipam.PoolCreation{CIDR: subnet}, nil)
			} else {
				c.removePool(s, subnet)
			}
		}},
		{"replays", there, func(_ *cluster, s *site) { // its engine starts again under its containers
			if s.powered {
				s.engine.restart()
			}
		}},
		// A plugin is removed with its data and installed again, with RINGLET_JOIN empty.
		{"reinstalls", there | ours | rare, func(_ *cluster, s *site) { s.wipe(true) }},
		{"refounds", ours | rare, func(c *cluster, _ *site) { c.refoundByList() }},
		{"quits", there | ours, (*cluster).quit},
		{"ghosts", 0, func(c *cluster, _ *site) { c.haunt() }},
		{"reserves", there | ours, (*cluster).keepBack},
		{"collapses", rare, func(c *cluster, _ *site) { c.collapse() }},
		{"sleeps", there | rare, func(_ *cluster, s *site) { s.sleep() }},
		{"recovers", rare, (*cluster).loseMajority},
	}
}

// FaultNames returns the names of the faults, in the order of [Storms.Nemesis].
func FaultNames() (names []string) {
	for _, f := range nemeses() {
		names = append(names, f.name)
	}
	return names
}

// begin has all that happens again and again in bad weather begin.
func (c *cluster) begin() {
	c.often(c.w.Storm, c.strike)
	c.often(c.w.ZoneEvery, c.loseZone)
	if c.w.LAN.IsValid() {
		c.often(c.w.Roams, c.roam)
	}
	c.often(c.w.Recorder, c.playBack)
	c.often(c.w.IdentifyEvery, c.identify)
	c.often(c.w.LockEvery, c.wantLock)
}

// often has something happen again and again while the weather is bad, every so often in the mean; 0: never.
func (c *cluster) often(every time.Duration, do func()) {
	if every == 0 {
		return
	}
	c.after(c.about(every), func() {
		if !c.calm {
			do()
			c.often(every, do)
		}
	})
}

// strike has one fault strike one host. Until there is one cluster, and while one begins again, nothing does.
func (c *cluster) strike() {
	total := 0
	for _, n := range c.w.Nemesis {
		total += n
	}
	if total == 0 || !c.isUnited() || c.unsettled() {
		return
	}
	i, n := 0, c.rnd.IntN(total)
	for n >= c.w.Nemesis[i] {
		n -= c.w.Nemesis[i]
		i++
	}
	f, s := nemeses()[i], one(c.rnd, c.sites...)
	if s.absent != nil && f.needs&there > 0 || (s.cast != nil || s.outside) && f.needs&ours > 0 {
		return // there is nobody
	}
	c.tracef("%s strikes %s", f.name, s)
	c.count[f.name]++
	f.does(c, s)
}

// sever has nothing get from one host to another where it says so.
func (c *cluster) sever(cut func(from, to *site) bool) {
	for _, s := range c.sites {
		for _, t := range c.sites {
			if cut(s, t) {
				c.cut[[2]*site{s, t}] = true
			}
		}
	}
}

func (c *cluster) heal() {
	clear(c.cut)
	for _, s := range c.sites {
		s.offline = 0
	}
}

// loseZone has all hosts of one zone lose their power, or not hear those of other zones, for a while.
func (c *cluster) loseZone() {
	if !c.isUnited() || c.unsettled() {
		return
	}
	zone := one(c.rnd, c.sites...).cfg.Zone
	c.tracef("%s is lost for a while", zone)
	if c.rnd.IntN(2) == 0 {
		c.count["zone without power"]++
		for _, s := range c.sites {
			if s.cfg.Zone == zone && s.powered && s.absent == nil {
				s.powerOff()
				c.after(c.about(30*time.Second), s.powerOn)
			}
		}
		return
	}
	c.count["zone cut off"]++
	c.sever(func(s, t *site) bool { return (s.cfg.Zone == zone) != (t.cfg.Zone == zone) })
	c.after(c.about(30*time.Second), c.heal)
}

// reboot has a host lose its power for a while, and maybe its database by that.
func (c *cluster) reboot(s *site) {
	damaged := *c.w.fault("wipes") > 0 && c.chance(c.w.Damaged) && s.mayLose()
	if s.powerOff(); damaged {
		s.bereft()
	}
	c.after(c.about(20*time.Second), s.powerOn)
}

// wipe loses the database while the host runs on. One that is told of no other host then can know that it had a cluster as long as
// its engine has a network.
func (s *site) wipe(untold bool) {
	if !s.mayLose() || untold && !s.engine.hasNetwork() {
		return
	}
	untold = untold || s.c.chance(s.c.w.Untold) && s.engine.hasNetwork()
	if s.bereft(); untold {
		s.cfg.Formation, s.cfg.Join, s.stranded = ipam.Formation{}, false, true
		s.c.count["reinstalled"]++
	}
	s.restartSoon()
}

// mayLose reports whether the database of a host that runs on may be lost. Until slot 1 is decided and known that could bring two
// clusters about, which no protocol can help: an acceptor would have forgotten what it accepted. A hole is left: without the
// engine's socket the new peer takes over the space of its former self and hands out what runs there, within five schedules
// (docs/limits.md).
func (s *site) mayLose() bool {
	return s.c.wasFounded() && s.powered && !s.outside && !s.spared() && s.cfg.AwaitInventory // else nobody could tell what lives on
}

// bereft ends the process of a host that runs on, and loses its database with all that only this knew.
func (s *site) bereft() {
	s.kill()
	s.lose()
	s.deaf = 0 // the process that starts draws again
	s.forgetClients()
	s.cfg.Join = true
}

// end ends a host for good.
func (s *site) end() {
	s.powerOff()
	s.dead, s.absent = true, nil
	s.engine.destroyed()
	s.lostPeers = append(s.lostPeers, s.peers...)
	s.peers = nil
	s.lose()
}

// lose loses the database.
func (s *site) lose() {
	s.settled, s.leaving, s.forced = false, false, false
	s.databases++
	s.c.losses = append(s.c.losses, loss{s.id, s.c.now, s.c.oracle.state.Member(s.id) == nil})
	s.beginAnew()
	s.id, s.cast, s.rejoined = peer.None, nil, 0
}

// beginAnew empties the disk of a host, and what the oracle knows of it.
func (s *site) beginAnew() {
	s.disk, s.settled = machinetest.Disk{}, false
	clear(s.held)
	s.outside, s.told = false, map[int]word{}
}

// replace puts another host in the place of a destroyed one, with an empty disk.
func (s *site) replace() {
	if s.dead {
		s.dead, s.cfg.Join = false, true
		s.powerOn()
	}
}

// leave has an operator have a peer leave, if the others can do without it.
func (s *site) leave(force bool) {
	if s.c.goesOn(nil, s) {
		s.leaving, s.forced = true, s.forced || force
		s.c.count["told to leave"]++
		s.call(&ipam.LeaveRequest{Force: force}, nil)
	}
}

// quit has a user remove all that is on a host, and let it leave its cluster while new networks may be made.
func (c *cluster) quit(s *site) {
	if !s.powered || !c.goesOn(nil, s) {
		return
	}
	s.clear()
	s.engine.after(c.between(0, 2*time.Second), func() {
		if c.goesOn(nil, s) {
			s.engine.removeAll()
			s.leave(false)
		}
	})
}

// refoundByList loses the databases of a majority of those on the list that founded the cluster, while all others are there and can
// be seen.
func (c *cluster) refoundByList() {
	if c.w.Birth != ByList || !c.wasFounded() || c.refounding() || slices.ContainsFunc(c.sites, func(s *site) bool { return !s.present() }) {
		return
	}
	var lost []*site
	for _, i := range c.rnd.Perm(c.w.Hosts) {
		s := c.sites[i]
		if s.powered && s.cfg.AwaitInventory && s.cfg.Formation.List != 0 && 2*len(lost) <= c.w.Hosts && c.goesOn(s, nil) {
			lost = append(lost, s)
			s.bereft() // so that the next one counts on it no more
		}
	}
	c.heal()
	for _, s := range c.sites {
		if s.powerOn(); !slices.Contains(lost, s) {
			s.start()
		}
	}
	for _, s := range lost {
		s.restartSoon()
	}
}

// forgettable returns the ID of a peer whose host was destroyed, or nothing; where operators are rash, of any.
func (c *cluster) forgettable() string {
	if c.w.Rash {
		return c.anyMember()
	}
	var ids []peer.ID
	for _, s := range c.sites {
		ids = append(ids, s.lostPeers...)
	}
	if len(ids) == 0 {
		return ""
	}
	return one(c.rnd, ids...).String()
}

// anyMember returns the ID of the peer on some host, or of any member.
func (c *cluster) anyMember() string {
	if roster := c.oracle.state.Roster; c.rnd.IntN(4) == 0 && len(roster) > 0 {
		return one(c.rnd, roster...).ID.String()
	}
	return one(c.rnd, c.sites...).id.String()
}
