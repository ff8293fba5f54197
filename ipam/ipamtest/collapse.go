package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// collapse loses all databases at once, under the containers of all hosts. Once the plugin runs on all of them again, an operator
// has one begin the cluster anew. What a host has that cannot be seen meanwhile, the others find out too late; so for now all can,
// and none is older than what the cluster may agree to speak.
func (c *cluster) collapse() {
	unfit := slices.ContainsFunc(c.sites, func(s *site) bool {
		return s.stopped > c.now || s.absent != nil || s.outside() || !s.cfg.AwaitInventory
	})
	if !c.wasFounded() || c.ordering || unfit {
		return
	}
	var hosts []*site
	for _, s := range c.sites {
		if !s.dead {
			hosts = append(hosts, s)
		}
	}
	c.beginning = true
	c.heal()
	for _, s := range hosts {
		s.bereft()
		s.stranded, s.cfg.Formation = false, ipam.Formation{}
	}
	for _, s := range c.sites {
		s.peers, s.lostPeers = nil, nil
	}
	c.losses, c.past, c.strains.recorded = nil, nil, nil
	c.collapses++
	c.oracle.collapsed()
	for _, s := range hosts {
		if s.powerOn(); s.machine == nil {
			s.restartSoon()
		}
	}
	c.after(c.between(20*time.Second, time.Minute), func() {
		// One without networks would be taken for the first host of all, and begin at once.
		old := slices.DeleteFunc(slices.Clone(hosts), func(s *site) bool {
			return !s.engine.hasNetwork()
		})
		if len(old) == 0 {
			old = hosts
		}
		c.beginner = one(c.rnd, old...)
		c.beginner.cfg.Join, c.beginner.cfg.FoundAlone = false, true
		c.beginner.crash()
		c.after(time.Second, c.settleDown)
	})
}

// settleDown ends the beginning once all hosts are in the new cluster and have taken in what they have.
func (c *cluster) settleDown() {
	awaits := func(p ipam.Problem) bool { return p.Code == "others-unlisted" || p.Code == "inventory-awaited" }
	for _, s := range c.sites {
		if !s.dead && (!s.settled || s.machine == nil || slices.ContainsFunc(s.machine.Status(s.clock()).Problems, awaits)) {
			c.after(time.Second, c.settleDown)
			return
		}
	}
	for _, s := range c.sites {
		s.cfg.FoundAlone = false
	}
	c.beginning = false
	c.count["begun again"]++
}

// unsettled reports whether more faults now could bring about what no protocol can help.
func (c *cluster) unsettled() bool { return c.beginning || c.recovering || c.refounding() }
