package chronicle

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// actOnPeer applies the commands that change the roster.
func (s *State) actOnPeer(author peer.ID, action Action) (refused string) {
	switch a := action.(type) {
	case Admit:
		if !isPeer(a.ID) || s.Member(a.ID) != nil {
			return "it is in the roster"
		}
		if a.Speaks < s.Level {
			return fmt.Sprintf("it speaks level %d, and the level is %d", a.Speaks, s.Level)
		}
		if s.Level >= usedOnce && s.UsedUp(a.ID) {
			return "its ID was used up: it left, or its space was given up"
		}
		zone := s.ZoneOf(a.ID) // until it says otherwise
		s.Former = slices.DeleteFunc(s.Former, func(g Gone) bool { return g.ID == a.ID })
		s.Roster = append(s.Roster, Member{a.Founder, Filling, zone})
	case SetState:
		m := s.Member(a.Peer)
		if m == nil || a.Phase < Filling || a.Phase > Draining {
			return "it is not in the roster"
		}
		m.Phase = a.Phase
	case Evict:
		m := s.Member(a.Peer)
		if m == nil || len(s.Roster) == 1 {
			return "it is not in the roster, or the last of it"
		}
		s.Former = append(s.Former, Gone{Member: *m, Evicted: s.Slot})
		s.dismiss(a.Peer)
	case Retire:
		m := s.Member(a.Peer)
		if m == nil || len(s.Roster) == 1 {
			return "it is not in the roster, or the last of it"
		}
		if s.ownsSpace(a.Peer) {
			return "it owns space"
		}
		if slices.ContainsFunc(s.Pools, func(p *Pool) bool { return p.UsedBy(a.Peer) }) {
			return "it has networks"
		}
		if s.Level >= usedOnce {
			s.Former = append(s.Former, Gone{Member: *m, Evicted: s.Slot, Forgotten: true})
		}
		s.dismiss(a.Peer)
	case Forget:
		g := s.Gone(a.Peer)
		if g == nil || g.Evicted != a.Evicted || g.Forgotten {
			return "it was not evicted at that slot, or came back"
		}
		s.handOver(a.Peer, ring.Free)
		g.Forgotten = true
	case Inherit:
		g, m := s.Gone(a.Former), s.Member(author)
		switch {
		case m == nil:
			return "its author is not in the roster"
		case g == nil || g.Forgotten:
			return "it was not evicted, or was forgotten"
		case g.Machine == 0 || g.Machine != m.Machine:
			return "it ran on another machine"
		}
		s.handOver(a.Former, author)
		g.Forgotten = true
	default:
		return fmt.Sprintf("no such command: %T", action)
	}
	return ""
}

func (s *State) dismiss(id peer.ID) {
	s.Roster = slices.DeleteFunc(s.Roster, func(m Member) bool { return m.ID == id })
	s.Locks.Keep(func(owner peer.ID) bool { return owner != id })
}

func (s *State) ownsSpace(id peer.ID) bool {
	return slices.ContainsFunc(s.Pools, func(p *Pool) bool {
		for t := range p.Ring.Tokens() {
			if t.Owner == id {
				return true
			}
		}
		return false
	})
}

// handOver makes all ranges of one owner another's, who uses what it used if
// it is a peer.
func (s *State) handOver(from, to peer.ID) {
	for _, p := range s.Pools {
		for _, r := range slices.Collect(p.Ring.OwnedBy(from)) {
			s.assign(p, r, to)
		}
		if p.UsedBy(from) {
			p.dropUser(from)
			if isPeer(to) {
				p.addUser(to)
			}
		}
	}
}
