package ipamtest

import (
	"math/rand/v2"

	"github.com/ringlet/ringlet/ipam/chronicle"
)

// The levels that the releases of a mixed schedule speak.
const (
	olderLevel = chronicle.Spoken
	newerLevel = chronicle.Spoken + 1
)

// releases draws which hosts have the newer release, and when the others are upgraded. It has its own source of randomness, so that
// schedules with one release stay what they were.
type releases struct {
	mixed bool
	rnd   *rand.Rand
}

func drawReleases(seed uint64) releases {
	r := releases{rnd: rand.New(rand.NewPCG(seed, 0x1e7e1))}
	r.mixed = r.rnd.IntN(4) == 0
	return r
}

// release has the process that starts on a site be of the older release, or, now and then and from then on, of the newer. Nobody
// goes back.
func (c *cluster) release(s *site) {
	if !c.releases.mixed {
		return
	}
	if s.cfg.Spoken == 0 {
		s.cfg.Spoken = olderLevel
	}
	if s.cfg.Spoken == olderLevel && (c.calm || c.beginning || c.releases.rnd.IntN(4) == 0) {
		s.cfg.Spoken = newerLevel
		c.count["upgrade"]++
	}
}

// upgradeAll has every host that still has the older release upgraded.
func (c *cluster) upgradeAll() {
	for _, s := range c.sites {
		if s.cfg.Spoken == olderLevel && s.machine != nil {
			s.kill()
			s.start()
		}
	}
}

// isOutdated reports whether a host has an older release than its cluster goes by: it waits for an upgrade, and can do nothing
// more.
func (s *site) isOutdated() bool {
	return s.cfg.Spoken == olderLevel && s.machine != nil && s.c.oracle.state.Level > olderLevel
}

// upgrade has an operator upgrade a host to the newer release.
func (s *site) upgrade() {
	s.c.count["upgrade"]++
	s.cfg.Spoken = newerLevel
	s.kill()
	s.start()
}
