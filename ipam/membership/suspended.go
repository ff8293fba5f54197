package membership

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/suspend"
)

// IsSuspended reports whether this peer is suspended: its database must not be used as it stands, and an operator has to decide.
// It stays at the slot that it knows: it follows no more slots, so that nothing of its space changes hands under the containers of
// its host. It answers an engine that starts, serves releases, hands out nothing, votes on nothing and asks for no admission.
func (s *Membership) IsSuspended() bool { return s.Suspension.Is() }

// IsGivenUp reports whether this peer is suspended because its space was given up.
func (s *Membership) IsGivenUp() bool { return s.Suspension.For(suspend.GivenUp) }

// stopIf has this peer take part in nothing any more, if it was suspended just now.
func (s *Membership) stopIf(suspended bool) {
	if suspended {
		s.Check.Stop()
		s.log.Stop()
		s.news = true
	}
}

// takeLatest follows what another peer says of the latest start of this one, see [suspend.Suspension.TakeLatest].
func (s *Membership) takeLatest(surpassed, suspended bool) {
	if surpassed {
		s.saveIdentity()
	}
	s.stopIf(suspended)
}

// CheckVeto sees whether the next slot was decided, as another peer says, without the vote of this one where that is needed, as of one
// that is alone or the first of two. It would have accepted a value, on its disk, before anybody could learn of it. One that has
// dissolved a cluster may come to it again, having forgotten it on purpose.
func (s *Membership) CheckVeto() {
	if s.state.Slot > 0 && !s.log.HasAccepted() && !s.Seeker.HasGivenWay() && s.View().HasVeto() {
		s.stopIf(s.Suspension.Outlive("others know a decision (slot %d) that needs the vote of this peer, but it does not know that one", s.state.Slot+1))
	}
}

// Follows reports whether this peer may apply a batch that was decided. It suspends one whose space the batch gives up, see
// [suspend.Suspension.LookFor], or whose database the batch shows to be an old one.
func (s *Membership) Follows(batch []chronicle.Command) bool {
	for _, c := range batch {
		if c.Author == s.Self() && !s.knowsNumber(c.Number) {
			return false
		}
	}
	if !s.lacks(rule.Suspend) {
		suspended, err := s.Suspension.LookFor(s.View(), batch)
		if err != nil {
			s.log.Fail(err)
		}
		s.stopIf(suspended)
	}
	return !s.IsSuspended()
}

// FollowsTo is [Membership.Follows] for a state at a later slot.
func (s *Membership) FollowsTo(state *chronicle.State) bool {
	if !s.knowsNumber(state.Number(s.Self())) {
		return false
	}
	if retires := s.Wish.IsLeaving() && !s.Wish.IsForced(); !retires && !s.lacks(rule.Suspend) {
		s.stopIf(s.Suspension.LookAt(s.Self(), state))
	}
	return !s.IsSuspended()
}

// knowsNumber reports whether this peer has given a command that number. It suspends one that has not: numbers are on disk before they
// leave, so its database went back in time.
func (s *Membership) knowsNumber(number uint64) bool {
	if number <= s.log.Number() || s.lacks(rule.Old) {
		return true
	}
	s.stopIf(s.Suspension.Outlive("others have request %d of this peer, but it knows only %d", number, s.log.Number()))
	return false
}

// Trust has a peer go on with a database that was moved, as an operator states; [Membership.Enter] is to follow. It asks the others as
// after a start of the host: it may have been given up while the data was moved.
func (s *Membership) Trust() error {
	switch {
	case s.Suspension.Trust(s.cfg.Place):
		s.news = true
		return nil
	case !s.IsSuspended():
		return sentence.Errorf(sentence.ErrBadRequest, "ringlet on %s uses its database already: see ringlet status", s.cfg.Name)
	case s.Suspension.For(suspend.Differs):
		return s.Usable()
	}
	return sentence.Errorf(sentence.ErrBadRequest, "the database of %s cannot be trusted, because %s: run ringlet rejoin on that host, and it starts over as a new peer", s.cfg.Name, s.Suspension.Why())
}

// EndOfSuspension says what ends the suspension of this peer.
func (s *Membership) EndOfSuspension() string {
	switch s.Suspension.Reason() {
	case suspend.OldDatabase:
		if v := s.View(); v.HasVeto() && !v.Alone() {
			return "disable the plugin here; on another host of the cluster run ringlet recover --i-know-the-others-are-gone, because the cluster decides nothing without this host; then enable the plugin here, and run ringlet rejoin"
		}
	case suspend.OtherPlace:
		if s.knowsNobody() {
			return "if the data was moved here and no other copy of it runs, run ringlet trust on this host; else disable the plugin, remove its data, and enable it again"
		}
		return "if the data was moved here and no other copy of it runs, run ringlet trust on this host; else run ringlet rejoin, and it starts over as a new peer"
	case suspend.Copied:
		return "on the host whose database is the copy, run ringlet rejoin; then start the plugin on the other one again"
	case suspend.Differs:
		return "keep both databases, and report it"
	default:
	}
	return "run ringlet rejoin on this host: it starts over as a new peer, and its containers run on"
}

// knowsNobody reports whether this peer has never known of another one.
func (s *Membership) knowsNobody() bool {
	return len(s.View().Known()) == 0 && len(s.state.Former) == 0
}

// Contact is another peer as a former peer of this host knew it.
type Contact struct {
	ID            peer.ID
	Name          peer.Name
	Addr          string // where it was last, as the carrier wrote it; empty if that is not known
	cluster.Start        // its latest one; zero if the former peer never heard of one
}

// Contacts returns the other peers that this one knows, for who starts over.
func (s *Membership) Contacts() (out []Contact) {
	for _, id := range s.View().Known() {
		if c := s.contacts.Of(id); c.Addr != "" || c.Start.Boot != 0 {
			out = append(out, Contact{ID: id, Name: c.Name, Addr: c.Addr, Start: c.Start})
		}
	}
	return out
}

// Remember takes over the peers that the former peer of this host knew.
func (s *Membership) Remember(contacts []Contact) {
	for _, c := range contacts {
		if s.lacks(rule.Whereabouts) {
			c.Addr = ""
		}
		if s.lacks(rule.Starts) {
			c.Start = cluster.Start{}
		}
		if c.ID != s.Self() && c.ID != peer.None {
			s.contacts.Remember(c.ID, c.Name, c.Addr, c.Start)
		}
	}
}

// MayRejoin returns why this peer does not start over, if it does not.
func (s *Membership) MayRejoin() error {
	switch {
	case s.IsMoved() && s.knowsNobody():
		return sentence.Errorf(sentence.ErrBadRequest, "%s knows no other host, and after a rejoin it would wait for one: if no other copy of its data runs, run ringlet trust on this host; else disable the plugin, remove its data, and enable it again", s.cfg.Name)
	case s.Wish.HasLeft() || s.IsSuspended() && !s.Suspension.For(suspend.Differs):
		return nil
	case s.log.Err() != nil || s.IsSuspended():
		return s.Usable()
	}
	return sentence.Errorf(sentence.ErrBadRequest, "%s is in its cluster and keeps its addresses: it has no reason to rejoin; see ringlet status", s.cfg.Name)
}

// IsMoved reports whether this peer is suspended since its database was written at another place.
func (s *Membership) IsMoved() bool { return s.Suspension.For(suspend.OtherPlace) }

// HasMet reports whether this peer was ever more than alone: it knows another one, has left a cluster, or has started over.
func (s *Membership) HasMet() bool {
	return len(s.state.Roster) > 1 || len(s.state.Former) > 0 || !s.contacts.IsEmpty() || s.Wish.HasLeft() || s.Former.Was()
}
