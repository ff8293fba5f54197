package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// reinstall loses the database of a host that is told of no other host, as the first one may be. It can know that it had a cluster
// as long as its engine has a network.
func (s *site) reinstall() {
	if !s.engine.hasNetwork() {
		return
	}
	lost := s.id
	if s.wipe(); s.id != lost {
		s.tellNothing()
	}
}

// tellNothing has a host whose database was lost be told of no other host.
func (s *site) tellNothing() {
	s.cfg.Formation, s.cfg.Join, s.stranded = ipam.Formation{}, false, true
	s.c.count["reinstalled"]++
}

// refoundByList loses the databases of a majority of those on the list that founded the cluster, while all others are there and can
// be seen.
func (c *cluster) refoundByList() {
	frozen := slices.ContainsFunc(c.sites, func(s *site) bool { return s.stopped > c.now || s.absent != nil || s.outside() })
	if c.w.Birth != ByList || !c.wasFounded() || c.refounding() || frozen {
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
	if 2*len(lost) > c.w.Hosts {
		c.count["refounded"]++
	}
}

// refounding reports whether so many of the founders have no database that they could found another cluster if they were cut off
// now, which no protocol can help.
func (c *cluster) refounding() bool {
	if c.w.Birth != ByList || len(c.losses) == 0 {
		return false
	}
	unsettled := 0
	for _, s := range c.sites[:c.w.Hosts] {
		if !s.settled && !s.dead && s.cfg.Formation.List != 0 {
			unsettled++
		}
	}
	return 2*unsettled > c.w.Hosts
}

// quit has a user remove all that is on a host, and let it leave its cluster.
func (s *site) quit() {
	e, c, life := &s.engine, s.c, s.engine.life
	if !s.powered || !c.goesOn(nil, s) {
		return
	}
	s.clear()
	c.after(c.between(0, 2*time.Second), func() {
		if e.life != life || !c.goesOn(nil, s) {
			return
		}
		e.removeAll()
		s.leaving = true
		c.count["told to leave"]++
		s.call(&ipam.LeaveRequest{}, nil)
	})
}
