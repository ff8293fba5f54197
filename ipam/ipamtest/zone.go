package ipamtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// drawZones spreads the hosts of some schedules over zones, and has some of those lose a whole zone now and then. It has its own
// source of randomness.
func (w *Weather) drawZones(seed uint64) {
	if rnd := rand.New(rand.NewPCG(seed, 0x20e5)); rnd.IntN(4) == 0 {
		w.Zones, w.ZoneEvery = 2+rnd.IntN(3), one(rnd, 0, 20*time.Second, time.Minute, 5*time.Minute)
	}
}

// zoneOf returns the zone of a host, by its number.
func (w *Weather) zoneOf(index int) peer.Zone {
	if w.Zones == 0 {
		return ""
	}
	return peer.Zone(fmt.Sprintf("zone-%d", index%w.Zones))
}

// loseZones has all hosts of one zone lose their power, or not hear those of other zones, again and again.
func (c *cluster) loseZones() {
	if c.w.ZoneEvery == 0 {
		return
	}
	c.after(c.about(c.w.ZoneEvery), func() {
		if c.calm {
			return
		}
		if c.isUnited() && !c.unsettled() {
			c.loseZone(one(c.rnd, c.sites...).cfg.Zone)
		}
		c.loseZones()
	})
}

func (c *cluster) loseZone(zone peer.Zone) {
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
	for i, s := range c.sites {
		for j, t := range c.sites {
			if (s.cfg.Zone == zone) != (t.cfg.Zone == zone) {
				c.cut[i][j] = true
			}
		}
	}
	c.after(c.about(30*time.Second), c.heal)
}
