package membership

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Host answers what only the rest of this peer knows.
type Host interface {
	// LivesIn reports whether containers of this host have addresses in the space of another peer, by the engine's last list: as
	// where its plugin was installed anew under another name, and that peer is its former self.
	LivesIn(id peer.ID) bool
	// NextQuestion numbers the questions of this peer.
	NextQuestion() uint64
}

// Evict returns the command that takes a lost peer out of the roster; none: it is out of it. underWay says that it is asked for already,
// and stays wanted.
func (s *Membership) Evict(id peer.ID, underWay bool) ([]chronicle.Action, error) {
	if s.state.Gone(id) != nil {
		return nil, nil
	}
	if err := departure.MayEvict(s.View(), id, underWay); err != nil {
		return nil, err
	}
	return []chronicle.Action{chronicle.Evict{Peer: id}}, nil
}

// Unheard returns nil if nobody hears from a peer, or has containers in its space, as far as can be asked, and a majority of the
// voters can; else why that is not known. Where that may pass it is a [sentence.WaitError].
func (s *Membership) Unheard(id peer.ID) error {
	v := s.View()
	if lives := s.cfg.Host.LivesIn(id); lives || v.Present(id) {
		return departure.There(v, id, v.Self, lives)
	}
	if !s.mayTell() {
		return passing("ringlet on %s has just started, and waits for the other hosts and for the engine's list: try again in a moment, and see ringlet status if it fails again", s.cfg.Name)
	}
	r := s.departures.Ask(v, id, s.cfg.Host.NextQuestion)
	switch {
	case r.IsClear():
		return nil
	case r.By != peer.None:
		return departure.There(v, id, r.By, false)
	case !r.Majority:
		return sentence.Wait(s.NoMajority())
	}
	return passing("%s is reachable, but did not say whether it hears from %s, or has containers with addresses of it: see ringlet status there, and try again", sentence.List(v.NamesOf(r.Open)), v.NameOf(id))
}

// Report answers whether this peer hears from another one, or has containers in its space, once it can tell.
func (s *Membership) Report(to peer.ID, q wire.Inquire) {
	if heard := s.View().Present(q.Peer) || s.cfg.Host.LivesIn(q.Peer); heard || s.mayTell() {
		s.out.Send(to, wire.Report{ID: q.ID, Peer: q.Peer, Heard: heard})
	}
}

// mayTell reports whether this peer can say that it does not hear from another one, and has no containers in its space (R29): it has
// been there for a while, and its engine has listed what it has, if it will.
func (s *Membership) mayTell() bool {
	return s.View().HasListened(cluster.ReachTime) && !s.IsChecking() && (!s.engine.WillList() || !s.engine.Complete().IsZero())
}

// Reconsider takes back what is not wanted any more. What was sent may still be decided, as long as nobody has admitted that peer.
func (s *Membership) Reconsider() {
	v := s.View()
	unwanted := func(p *replog.Proposal) bool { return departure.IsUnwanted(v, p.First(), p.Last(), p.Since()) }
	s.news = s.log.Withdraw(unwanted) || s.news
}

// Route brings the commands of this peer to a peer that proposes them, but for those that nobody wants any more. A peer that was
// evicted, and perhaps forgotten, waits until it is back: most would be refused, and with that what somebody was told is to come.
func (s *Membership) Route() {
	if s.IsChecking() || s.IsSuspended() || s.log.IsOutdated() || s.state.Gone(s.Self()) != nil && !s.Wish.HasLeft() {
		return
	}
	if s.log.IsUnsent() {
		s.Reconsider()
		s.log.Route()
	}
}

// Recover returns the state of the cluster that this peer founds anew from its own, for an operator who states that a majority of its
// votes is gone for good (protocol, 4.5); nil: it has nobody to be without. [Membership.Refound] is to follow.
func (s *Membership) Recover() (*chronicle.State, error) {
	switch {
	case s.log.Err() != nil || s.IsSuspended():
		return nil, s.Usable()
	case s.log.IsOutdated():
		return nil, s.outdated()
	case !s.IsMember() && !s.MayReturn():
		return nil, sentence.Errorf(sentence.ErrBadRequest, "ringlet on %s is in no cluster that it could recover: see ringlet status", s.cfg.Name)
	case s.View().Alone():
		return nil, nil
	}
	if err := departure.MayRecover(s.View()); err != nil && !s.lacks(rule.Recovery) {
		return nil, err
	}
	id := peer.NewID(s.cfg.Rand)
	state, err := s.log.Supposed()
	if s.lacks(rule.Supposed) {
		state, err = s.state, nil
	}
	if err == nil {
		state, err = state.Refound(id, s.founder())
	}
	if err != nil {
		return nil, sentence.Errorf(sentence.ErrSuspended, "the state of %s cannot be used: %v", s.cfg.Name, err)
	}
	if !s.lacks(rule.Leap) {
		state.Identities.Leap()
		state.Locks.Leap()
	}
	state.Forgo(s.Self(), s.log.UnderWay())
	return state, nil
}

// Refound has this peer be in the cluster that it founds anew.
func (s *Membership) Refound() {
	s.Check.Stop()
	s.Wish.Return()
}

// MayReturn reports whether this peer was evicted, has what it had still, and waits to be admitted again.
func (s *Membership) MayReturn() bool {
	gone := s.state.Gone(s.Self())
	return gone != nil && !gone.Forgotten
}

// MayLeave returns why this peer does not leave its cluster, if it does not. It holds so many addresses, and has so many networks.
func (s *Membership) MayLeave(held, networks int, forced bool) error {
	switch {
	case s.View().Alone():
		return sentence.Errorf(sentence.ErrBadRequest, "%s is the only host of its cluster: remove the plugin instead", s.cfg.Name)
	case held > 0 && !forced:
		return sentence.Errorf(sentence.ErrPoolInUse, "%s still holds %s, which ringlet ip ls shows: remove its containers first, and free other holders with ringlet free; or use --force, then other hosts get these addresses only after ringlet forget", s.cfg.Name, sentence.Plural(held, "address", "addresses"))
	case networks > 0 && !forced:
		return sentence.Errorf(sentence.ErrPoolInUse, "%s still has %s with ringlet: remove its networks first with docker network rm; or use --force, then other hosts get its addresses only after ringlet forget", s.cfg.Name, sentence.Plural(networks, "network", "networks"))
	}
	return nil
}

// LeftIsKnown makes who asked this peer to leave wait until a majority of those who stay knows that it has: if its host is taken away
// before, they count on a vote that is no more.
func (s *Membership) LeftIsKnown() error {
	if s.IsMember() || s.state.Slot == 0 {
		return nil
	}
	know := slices.DeleteFunc(s.state.Voters(), func(id peer.ID) bool {
		c := s.contacts.Of(id)
		return c.Cluster != s.state.Cluster || c.Slot < s.state.Slot
	})
	if s.View().Majority(know) {
		return nil
	}
	return passing("%s has left, but not all other hosts know that yet: let it run a moment longer", s.cfg.Name)
}

// Drain returns the commands that have this peer give up its space, beside others that do if also is set, or end that; none: it is so
// already. That it leaves ends with that, too.
func (s *Membership) Drain(undo, also bool) ([]chronicle.Action, error) {
	s.Wish.SetDrained(s.Wish.Drained() && !undo)
	if undo && s.Wish.IsLeaving() {
		s.Wish.Stay() // also where that is decided when nobody waits for it any more
	}
	switch drains := s.IsDraining(); {
	case undo != drains:
		return nil, nil
	case !undo && s.View().Alone():
		return nil, sentence.Errorf(sentence.ErrBadRequest, "%s is the only host of its cluster, so no other host could take its addresses: add another host first", s.cfg.Name)
	case undo:
		return s.state.Drain(s.Self(), also)[:1], nil
	}
	return s.state.Drain(s.Self(), also), nil
}

// OtherDrains returns that another peer drains, if one does (R76).
func (s *Membership) OtherDrains() error {
	d := s.state.Drainer(s.Self())
	if d == nil {
		return nil
	}
	return sentence.Errorf(sentence.ErrBadRequest, "%s drains and still owns %s: wait until it owns none, which ringlet ring shows, or run ringlet drain --also", s.View().NameOf(d.ID), sentence.Plural(uint64(s.state.OwnedBy(d.ID)), "address", "addresses"))
}

// LeaveAgain returns the command that takes this peer out of the roster again: an admission was on its way when it left.
func (s *Membership) LeaveAgain() []chronicle.Action {
	if s.Wish.HasLeft() && s.IsMember() && !s.IsChecking() && s.Usable() == nil {
		return []chronicle.Action{chronicle.Evict{Peer: s.Self()}}
	}
	return nil
}

// StaysAlone reports whether this peer is alone, and is to stay: all is its own, and nobody wants it, but for what is kept back for
// those that were lost.
func (s *Membership) StaysAlone() bool {
	return s.View().Alone() && !s.IsDraining() && !s.Wish.IsLeaving()
}

// Tend proposes in the background what gives this peer its place in the cluster, and takes theirs from those that are lost.
func (s *Membership) Tend(propose func(...chronicle.Action)) {
	alone := s.StaysAlone()
	if alone {
		s.Wish.SetDrained(false)
	} else {
		if s.View().Alone() { // there is nobody to leave
			s.Wish.Stay()
			propose(chronicle.SetState{Peer: s.Self(), Phase: chronicle.Active})
		}
		propose(s.grow()...)
	}
	propose(departure.Inherit(s.View(), s.Machine(), s.Me.Joined())...)
	if !alone {
		s.Reconsider()
		propose(departure.EvictSilent(s.View(), s.cfg.EvictAfter)...)
		propose(departure.ExpireLocks(s.View())...)
	}
	isUnheard := func(id peer.ID) bool { return s.Unheard(id) == nil }
	propose(s.departures.EndQuarantine(s.View(), s.cfg.Quarantine, isUnheard)...)
}

// grow makes a peer that was admitted active once it has space. One that was draining before it was evicted drains on: nobody has
// undone that.
func (s *Membership) grow() []chronicle.Action {
	settles := func(a chronicle.Action) bool {
		c, ok := a.(chronicle.SetState)
		return ok && c.Peer == s.Self()
	}
	if actions := s.Wish.Grow(s.View()); len(actions) > 0 && !s.log.IsUnderWay(settles) { // it may be to drain
		return actions
	}
	return nil
}

// Raise returns the command that has the cluster use the highest level that all of the roster speak. Hosts are upgraded one after the
// other, so a cluster runs two releases for a while. It uses a level that all of them speak, and the next one when the last host has
// been upgraded (see [chronicle.Level]). One that comes with an older release after that cannot follow the chronicle, and so cannot
// know what is still its own: it keeps what its containers have, takes back what they release, and hands out nothing until it is
// upgraded.
//
// The lowest live voter begins. It holds back for peers that it has not heard of since it started: those that are lost are evicted in
// the end.
func (s *Membership) Raise() []chronicle.Action {
	if s.cfg.Spoken <= s.state.Level {
		return nil
	}
	v := s.View()
	if !v.Leads() {
		return nil
	}
	level := s.cfg.Spoken
	for _, id := range v.Others() {
		spoken := s.contacts.Of(id).Spoken
		if spoken == 0 && v.Live(id) {
			s.Greet(id) // its answer says
		}
		level = min(level, spoken)
	}
	if level <= s.state.Level {
		return nil
	}
	return []chronicle.Action{chronicle.Raise{Level: level}}
}

// TellZone returns the command that has the cluster know in which zone this peer is, if it knows otherwise: who votes follows from it.
// It waits until the peers that can be reached have a majority of the votes also after that (R75). A peer that is alone has nobody to
// tell, and may yet give way to another cluster: then it votes again on what it has decided by itself (R38).
func (s *Membership) TellZone() []chronicle.Action {
	member := s.log.Member()
	tells := func(a chronicle.Action) bool {
		_, is := a.(chronicle.SetZone)
		return is
	}
	if member == nil || member.Zone == s.cfg.Zone || s.state.Level < chronicle.WithZones || s.log.IsUnderWay(tells) {
		return nil
	}
	if v := s.View(); v.Alone() || v.CutOff() || !v.KeepsMajorityIn(s.cfg.Zone) && !s.lacks(rule.ZoneVotes) {
		return nil
	}
	return []chronicle.Action{chronicle.SetZone{Zone: s.cfg.Zone}}
}

// Next is [leave.Wish.Next].
func (s *Membership) Next() []chronicle.Action { return s.Wish.Next(s.View(), s.IsDraining()) }

// Follow has the membership follow one command that had effect.
func (s *Membership) Follow(o chronicle.Outcome) {
	switch a := o.Command.Action.(type) {
	case chronicle.Found:
		s.SaveRoster()
	case chronicle.Inherit:
		if o.Command.Author == s.Self() {
			s.note(effect.NoteInherited, s.View().NameOf(a.Former))
		}
	case chronicle.Forget:
		s.notePeer(effect.NoteForgotten, a.Peer)
	case chronicle.Admit:
		s.contacts.Admit(s.View(), a.ID)
		s.notePeer(effect.NotePeerJoined, a.ID)
	case chronicle.Evict:
		s.followLeave(effect.NotePeerEvicted, a.Peer)
	case chronicle.Retire:
		s.followLeave(effect.NotePeerLeft, a.Peer)
	}
}

// followLeave notes that a peer is not in the roster any more, and of this one that it has left, if it was to.
func (s *Membership) followLeave(kind effect.NoteKind, id peer.ID) {
	s.notePeer(kind, id)
	if id == s.Self() {
		s.Wish.TakeDismissal(s.View())
	}
}

// SaveRoster writes down the peers of the cluster.
func (s *Membership) SaveRoster() { s.contacts.SaveRoster(s.View()) }

// Conclude has the membership follow once the state stands at another slot. It reports whether this peer has joined a cluster with that.
func (s *Membership) Conclude(wasMember bool) (joined bool) {
	s.news = true
	switch member := s.IsMember(); {
	case member && !wasMember && s.state.Slot > 1:
		s.Me.Join()
		return true
	case wasMember && !member && !s.Wish.TakeDismissal(s.View()):
		s.note(effect.NoteEvicted, "")
	}
	return false
}

func (s *Membership) note(kind effect.NoteKind, holder string) {
	*s.out.Note() = effect.Note{Kind: kind, Holder: holder}
}

// notePeer notes what became of another peer.
func (s *Membership) notePeer(kind effect.NoteKind, id peer.ID) {
	if id != s.Self() {
		s.note(kind, s.View().NameOf(id))
	}
}
