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
		return s.setPhase(author, a)
	case Evict:
		m := s.Member(a.Peer)
		if m == nil || len(s.Roster) == 1 {
			return "it is not in the roster, or the last of it"
		}
		s.Former = append(s.Former, Gone{Member: *m, Evicted: s.Slot})
		s.dismiss(a.Peer)
	case Retire:
		return s.retire(a.Peer)
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

// retire takes a peer out of the roster that has nothing left.
func (s *State) retire(id peer.ID) (refused string) {
	m := s.Member(id)
	if m == nil || len(s.Roster) == 1 {
		return "it is not in the roster, or the last of it"
	}
	if s.ownsSpace(id) {
		return "it owns space"
	}
	if slices.ContainsFunc(s.Pools, func(p *Pool) bool { return p.UsedBy(id) }) {
		return "it has networks"
	}
	if s.Level >= usedOnce {
		s.Former = append(s.Former, Gone{Member: *m, Evicted: s.Slot, Forgotten: true})
	}
	s.dismiss(id)
	return ""
}

// setPhase sets the phase of a peer (R76).
func (s *State) setPhase(author peer.ID, a SetState) (refused string) {
	m := s.Member(a.Peer)
	switch {
	case m == nil || a.Phase < Filling || a.Phase > Draining:
		return "it is not in the roster"
	case s.Level < WithOneDrain:
	case author != a.Peer:
		return "its author is another peer"
	case !m.Phase.leadsTo(a.Phase):
		return fmt.Sprintf("a peer that is %v does not become %v", m.Phase, a.Phase)
	case a.Phase == Draining && !a.Also && s.Drainer(a.Peer) != nil:
		return "another peer drains"
	}
	m.Phase = a.Phase
	return ""
}

// leadsTo reports whether a peer that is in a phase may be in another one next.
func (p Phase) leadsTo(next Phase) bool {
	return p == Filling && next == Active || p == Active && next == Draining || p == Draining && next == Active
}

// Drainer returns a peer of the roster other than the given one that drains and still owns space, or nil.
func (s *State) Drainer(but peer.ID) *Member {
	for i := range s.Roster {
		if m := &s.Roster[i]; m.ID != but && m.Phase == Draining && s.ownsSpace(m.ID) {
			return m
		}
	}
	return nil
}

// Drain returns the commands with which a peer drains, also while another one does. The first is for one that is filling by the
// time that they are decided, as it was evicted and admitted again.
func (s *State) Drain(id peer.ID, also bool) []Action {
	return []Action{SetState{Peer: id, Phase: Active}, SetState{Peer: id, Phase: Draining, Also: also && s.Level >= WithOneDrain}}
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
