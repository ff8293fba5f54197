package ipamtest

// What keeps schedules winnable: no protocol survives the loss of a majority of databases. So faults ask here before they take one,
// and where a majority is lost all the same an operator recovers the cluster (recovery.go).

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// founded reports whether all hosts that are to found the cluster know slot 1, of the same cluster.
func (c *cluster) founded() bool {
	for _, s := range c.sites[:c.w.Hosts] {
		if !s.dead && (!s.settled || c.w.Birth == Apart && (s.machine == nil || s.machine.State().Cluster != c.oracle.state.Cluster)) {
			return false
		}
	}
	return true
}

// wasFounded reports whether slot 1 needs no further acceptor.
func (c *cluster) wasFounded() bool {
	if c.w.Birth == Apart {
		return c.united
	}
	return c.founded()
}

// spared reports whether the loss of one more database could lose a majority for good, of the voters or of those who know slot 1.
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

// goesOn reports whether those who have their databases will have a majority, also when those have left who are about to, if that
// of one host were lost and another one left.
func (c *cluster) goesOn(lost, leaves *site) bool {
	if !c.stateGoesOn(c.oracle.state, lost, leaves) {
		return false
	}
	for _, s := range c.sites {
		// What only the one who is lost knows is lost with it.
		knows := s != lost && s.machine != nil && s.cast == nil && s.settled && !s.isElsewhere(c.oracle.state)
		if knows && !c.stateGoesOn(s.machine.State(), lost, leaves) {
			return false
		}
	}
	return true
}

// stateGoesOn is goesOn as one state of the cluster has it.
func (c *cluster) stateGoesOn(state *chronicle.State, lost, leaves *site) bool {
	for _, departed := range []bool{false, true} {
		var roster []chronicle.Member
		for _, m := range state.Roster {
			if s := c.bearer(m.ID); !departed || s == nil || !s.leaving && s != leaves {
				roster = append(roster, m)
			}
		}
		for _, id := range c.stillborn(lost) {
			roster = append(roster, chronicle.Member{Founder: chronicle.Founder{ID: id}})
		}
		if !c.rosterGoesOn(state, roster, lost) || c.w.Zones > 0 && !c.rosterGoesOn(state, c.zoned(roster), lost) {
			return false
		}
	}
	return true
}

// rosterGoesOn is goesOn as a roster has it.
func (c *cluster) rosterGoesOn(state *chronicle.State, roster []chronicle.Member, lost *site) bool {
	return majority(roster, func(id peer.ID) bool {
		s := c.bearer(id)
		return s != nil && s != lost && !s.doomed() && !s.isElsewhere(state)
	})
}

// zoned is a roster once all who live have said in which zone they are.
func (c *cluster) zoned(roster []chronicle.Member) []chronicle.Member {
	roster = slices.Clone(roster)
	for i := range roster {
		if s := c.bearer(roster[i].ID); s != nil {
			roster[i].Zone = s.cfg.Zone
		}
	}
	return roster
}

// majority reports whether those voters of a roster who have something have a majority of the votes: the first of an even number
// has two.
func majority(roster []chronicle.Member, has func(peer.ID) bool) bool {
	voters := chronicle.VotersOf(roster)
	live, all := 0, len(voters)
	for i, v := range voters {
		first := i == 0 && len(voters)%2 == 0
		if first {
			all++
		}
		if has(v) {
			if live++; first {
				live++
			}
		}
	}
	return 2*live > all
}

// isElsewhere reports whether the host's peer goes on with another cluster than that of a state, as where that was recovered on
// another host, or this one admitted to the recovered one before it heard of it: it has no vote there.
func (s *site) isElsewhere(state *chronicle.State) bool {
	return s.c.united && s.machine != nil && s.machine.State().Slot > 0 && s.machine.State().Cluster != state.Cluster
}

// stillborn returns the peers whose databases were lost, or that of a host if it were, before they were admitted, so that they may
// still be.
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
	return c.find(func(s *site) bool { return s.id == id && !s.dead })
}

// siteOf returns the host on which the peer runs, or nil.
func (c *cluster) siteOf(id peer.ID) *site {
	return c.find(func(s *site) bool { return s.id == id && s.machine != nil })
}

// hostOf returns the host that the peer was on, unless that was destroyed.
func (c *cluster) hostOf(id peer.ID) *site {
	return c.find(func(s *site) bool { return slices.Contains(s.peers, id) })
}

// find returns the first host of which something is so, or nil.
func (c *cluster) find(so func(s *site) bool) *site {
	if i := slices.IndexFunc(c.sites, so); i >= 0 {
		return c.sites[i]
	}
	return nil
}

// posthumous reports whether a peer is in the roster that was no more when it was admitted.
func (c *cluster) posthumous() bool {
	return slices.ContainsFunc(c.losses, func(l loss) bool { return l.stillborn && c.oracle.state.Member(l.id) != nil })
}

// refounding reports whether so many of the founders have no database that they could found another cluster if they were cut off now.
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

// unsettled reports whether more faults now could bring about what no protocol can help.
func (c *cluster) unsettled() bool { return c.beginning || c.recovering || c.refounding() }
