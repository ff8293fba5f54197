package ipamtest

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
)

// recover loses all hosts but one, and has an operator recover the cluster there. Then the others are made anew.
func (c *cluster) recover() {
	var rest, leaving []*site
	for _, s := range c.sites {
		switch {
		case s.machine == nil || s.outside() || s.machine.State().Member(s.id) == nil:
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
	c.tracef("%s is all that is left", survivor)
	if !c.goesOn(nil, nil) { // else it decides alone
		c.refound(survivor)
	}
	c.survivor = nil
	for _, s := range c.sites {
		s.cfg.Formation = ipam.Formation{}
		s.replace()
	}
	c.pass(time.Minute)
}

// refound has an operator recover the cluster on a host, again and again until the peer there believes that the others are gone.
func (c *cluster) refound(s *site) {
	c.count["recover"]++
	for range 20 {
		c.pass(10 * time.Second)
		c.survivor = s
		if c.breach != nil || s.machine == nil || c.ask(s, &ipam.RecoverRequest{}).Err == nil {
			break
		}
		// It may have a majority as far as it knows, and learns better once it is used.
		for _, m := range s.machine.State().Roster {
			if m.ID != s.id {
				c.ask(s, &ipam.EvictRequest{Peer: m.ID.String()})
				break
			}
		}
	}
	if c.breach == nil && len(c.oracle.state.Roster) != 1 {
		c.fail("liveness", "the cluster cannot be recovered on %s", s)
	}
}

// posthumous reports whether a peer is in the roster that was no more when it was admitted.
func (c *cluster) posthumous() bool {
	return slices.ContainsFunc(c.losses, func(l loss) bool { return l.stillborn && c.oracle.state.Member(l.id) != nil })
}

// hostOf returns the host that the peer was on, unless that was destroyed.
func (c *cluster) hostOf(id peer.ID) *site {
	for _, s := range c.sites {
		if slices.Contains(s.peers, id) {
			return s
		}
	}
	return nil
}

func (c *cluster) owns(id peer.ID) bool {
	for _, p := range c.oracle.state.Pools {
		for range p.Ring.OwnedBy(id) {
			return true
		}
	}
	return false
}

// buryTheDead has an operator evict and forget the peers of destroyed hosts, and evict the former selves of those that have left:
// nobody else will.
func (c *cluster) buryTheDead() {
	for _, m := range slices.Clone(c.oracle.state.Roster) {
		if s := c.hostOf(m.ID); s != nil && s.leaving && s.id != m.ID {
			if at := c.anyPeer(); at != nil {
				c.ask(at, &ipam.EvictRequest{Peer: m.ID.String()})
			}
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
		if s.cast == nil && !s.outside() && s.machine.State().Member(s.id) != nil {
			live = append(live, s)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return one(c.rnd, live...)
}
