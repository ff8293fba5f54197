package membership

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Founding is whether a cluster is to be founded now, and how.
type Founding struct {
	Now   bool // Found is to be decided
	Found chronicle.Found
	Alone bool // this peer gave up to look for one, or does so from the start
}

// foundAlone has a peer that has deferred it found a cluster alone.
func (s *Membership) foundAlone() Founding {
	s.Seeker.GoAlone()
	f := s.found()
	f.Alone = true
	return f
}

// found founds a cluster, alone or with those that this peer has met, if it is time.
func (s *Membership) found() (f Founding) {
	if !s.log.IsDeciding() {
		f.Found, f.Now = s.Seeker.Found(s.View(), s.founder())
	}
	return f
}

// TakeNetworks takes in how many networks of this driver the engine has, see [formation.Seeker.TakeNetworks].
func (s *Membership) TakeNetworks(n int) Founding {
	if s.state.Slot == 0 && s.Seeker.TakeNetworks(s.View(), n) {
		return s.foundAlone()
	}
	return Founding{}
}

// Seek looks for a cluster to be in: this peer says hello while it has none, and asks to be admitted when it is in no roster.
func (s *Membership) Seek() Founding {
	switch {
	case s.Wish.HasLeft() || s.IsSuspended():
	case s.state.Slot == 0:
		if s.out.Passed(callEvery, s.greetedAt) {
			s.greetAll()
		}
		if s.Seeker.HasLooked(s.View()) {
			return s.foundAlone()
		}
		return s.found()
	case s.IsMember() || s.IsChecking() || !s.Seeker.Applies():
	default:
		s.apply()
	}
	return Founding{}
}

// apply asks a peer of the cluster to be admitted.
func (s *Membership) apply() {
	gone := s.state.Gone(s.Self())
	// Also where it had been admitted again, and did not come to drain before it was lost anew.
	s.Wish.SetDrained(gone != nil && !gone.Forgotten && (s.Wish.Drained() || gone.Phase == chronicle.Draining))
	v := s.View()
	live := slices.DeleteFunc(v.Others(), func(id peer.ID) bool { return !v.Live(id) })
	if len(live) == 0 {
		s.greetAll()
		return
	}
	s.out.Send(live[s.cfg.Rand.IntN(len(live))], wire.Join{Name: s.cfg.Name, Machine: s.cfg.Machine})
}

// takeJoin challenges a peer that asks to be admitted.
func (s *Membership) takeJoin(f *wire.Frame, q wire.Join) []chronicle.Action {
	if !s.mayAdmit() {
		return nil
	}
	if s.state.Member(f.From) != nil {
		s.log.SendSlots(f.From, f.Slot)
		return nil
	}
	if s.state.UsedUp(f.From) && !s.lacks(rule.UsedUp) {
		s.out.Send(f.From, wire.UsedUp{}) // a command would be refused, and cost a slot each second
		return nil
	}
	if gone := s.state.Gone(f.From); gone != nil && f.Slot < gone.Evicted {
		return nil // it asked before it was evicted last, and may have left since
	}
	if s.lacks(rule.Challenge) {
		return formation.Admit(s.View(), f.From, q)
	}
	s.out.Send(f.From, s.hello(s.admissions.Challenge(s.View(), f.From, q, s.cfg.Rand)))
	return nil
}

func (s *Membership) mayAdmit() bool {
	return s.IsMember() && !s.IsChecking() && !s.log.IsOutdated()
}

// takeAnswered has a peer admitted that has answered its challenge.
func (s *Membership) takeAnswered(id peer.ID, question uint64) []chronicle.Action {
	q, passes := s.admissions.Answer(s.View(), id, question)
	if passes && s.mayAdmit() && s.state.Member(id) == nil && (!s.state.UsedUp(id) || s.lacks(rule.UsedUp)) {
		return formation.Admit(s.View(), id, q)
	}
	return nil
}

// givesWay reports whether this peer dissolves its cluster, if it is its only member, has no pool and nobody holds a lock, so that it
// can join one that it has met, first at that time. It also turns from a cluster that it was about to join, and that is no more.
func (s *Membership) givesWay(other [16]byte, met time.Time) bool {
	if s.Seeker.HasStrayed(s.View()) {
		return true
	}
	if !s.View().Alone() || len(s.state.Pools) > 0 || len(s.state.Locks.Locks) > 0 || len(s.engine.IDs()) > 0 || s.log.Pending() > 0 ||
		s.IsChecking() || s.wasShared() && !s.lacks(rule.Shared) {
		return false
	}
	if !s.Seeker.GivesWay(s.View(), other, met) {
		return false
	}
	s.note(effect.NoteGaveWay, "")
	return true
}

// wasShared reports whether others may know the cluster in which this peer is alone by now (R38). So it is with one that this peer has
// recovered: it has voted in the one before.
func (s *Membership) wasShared() bool {
	batches, all := s.log.Batches()
	return !all || slices.ContainsFunc(batches, func(batch []chronicle.Command) bool { return formation.WasShared(s.Self(), batch) })
}

// GiveWay forgets a cluster in which this peer had nothing, and asks a peer of another one for its slots.
func (s *Membership) GiveWay(to peer.ID) {
	s.log.Leave()
	s.NewDB.GiveWay()
	s.Seeker.GiveWay()
	s.news = true
	s.log.Pull(to)
}
