package membership

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Standing returns where this peer stands.
func (s *Membership) Standing() peer.Standing {
	switch {
	case s.log.Err() != nil || s.IsSuspended():
		return peer.Suspended
	case s.Wish.HasLeft():
		return peer.Left
	case s.IsChecking():
		return peer.Checking
	case s.log.IsOutdated():
		return peer.Outdated
	case s.Seeker.IsForming(s.state.Slot):
		return peer.Forming
	case !s.IsMember():
		return peer.Joining
	case s.Wish.IsLeaving() || s.IsDraining() || s.Wish.Drained():
		return peer.Leaving
	case s.View().Alone():
		return peer.Alone
	case s.View().CutOff():
		return peer.CutOff
	}
	return peer.Ready
}

// Outside returns why this peer is in no cluster.
func (s *Membership) Outside() peer.Outside {
	v, plan := s.View(), s.cfg.Plan
	switch isNew := s.state.Slot == 0; {
	case isNew && s.Seeker.LostNetworks() > 0:
		return peer.DatabaseLost
	case s.Standing() != peer.Joining:
		return peer.Inside
	case s.Seeker.LooksFirst(s.state.Slot) && !s.Seeker.SeesCluster(v):
		return peer.LooksFirst
	case isNew && s.Seeker.AwaitsList(v):
		return peer.AwaitsNetworks
	case isNew && plan.Size == 0 && s.Seeker.HasSeat() && v.Reached() == 0:
		return peer.ListsNobody
	case isNew && plan.NamesNobody:
		return peer.KnowsNobody
	case isNew:
		return peer.NotFound
	case s.MayReturn():
		return peer.AwaitsReturn
	}
	return peer.AwaitsAdmission
}

// longAgreement is how long a decision may take before that is a problem.
const longAgreement = 5 * time.Second

// Unagreed returns for how long the command has waited that this peer wants decided next, although those who can be reached could
// have agreed; 0 where it does not wait for long, or some of those were not there all the time.
func (s *Membership) Unagreed() time.Duration {
	v := s.View()
	steady := slices.DeleteFunc(v.LiveVoters(), func(id peer.ID) bool { return id != v.Self && !v.Lasted(v.Of(id).Since, longAgreement) })
	since, proposes := s.log.ProposedSince()
	if !proposes || !v.Majority(steady) {
		return 0
	}
	if since.Before(s.Me.At()) {
		since = s.Me.At() // it was on disk
	}
	if waits := v.Now.Sub(since); waits >= longAgreement {
		return waits
	}
	return 0
}

// Known returns other peers of the cluster, with the addresses at which they were last, as the carrier wrote them.
func (s *Membership) Known() map[peer.ID]string {
	known := map[peer.ID]string{}
	for _, id := range s.View().Known() {
		if at := s.contacts.Of(id).Addr; at != "" && !s.IsGone(id) {
			known[id] = at
		}
	}
	return known
}

// IsGone reports whether a peer is not of this one's cluster, as far as is known here, and nobody expects it back: it left, or its
// space was given up. One that was evicted may return.
func (s *Membership) IsGone(id peer.ID) bool {
	if s.state.Slot == 0 || s.state.Member(id) != nil {
		return false
	}
	former := s.state.Gone(id)
	return former == nil || former.Forgotten
}

// HasPlace reports whether this peer has its place in the cluster, and has nothing to take over from a former self any more.
func (s *Membership) HasPlace() bool {
	return s.IsMember() && !s.IsChecking() && !departure.HasPredecessor(s.View(), s.Machine())
}

// Ready returns why nothing can be handed out, if nothing can: a [sentence.WaitError] where that may pass.
func (s *Membership) Ready() error {
	switch {
	case s.log.Err() != nil || s.IsSuspended() && !s.lacks(rule.Stopped):
		return s.Usable()
	case s.Wish.HasLeft():
		return sentence.Errorf(sentence.ErrSuspended, "ringlet on %s has left its cluster and hands out nothing: remove the plugin, or only its data to join again", s.cfg.Name)
	case s.IsChecking():
		return passing("ringlet on %s has just started and asks the other hosts whether its database is current: start or reconnect the other hosts, and see ringlet status", s.cfg.Name)
	case s.log.IsOutdated():
		return s.outdated()
	case !s.IsMember():
		return s.outside()
	}
	return nil
}

// Usable returns why nothing can be handed out for good, if so.
func (s *Membership) Usable() error {
	if s.IsSuspended() {
		return sentence.Errorf(sentence.ErrSuspended, "ringlet on %s has stopped handing out addresses, because %s; see ringlet status", s.cfg.Name, s.Suspension.Why())
	}
	err := s.log.Err()
	if err == nil {
		return nil
	}
	return sentence.Errorf(sentence.ErrSuspended, "ringlet on %s has stopped handing out addresses, because its own records contradict each other (%v): see ringlet status", s.cfg.Name, err)
}

// MayPropose returns why this peer proposes nothing, if it does not. A peer that founds a cluster is in none yet.
func (s *Membership) MayPropose() error {
	switch {
	case s.log.Err() != nil:
		return s.Usable()
	case s.log.IsOutdated():
		return s.outdated()
	case s.state.Slot == 0 && !s.Seeker.IsFounding() || s.state.Slot > 0 && !s.IsMember():
		return s.outside()
	}
	return nil
}

func (s *Membership) outdated() error {
	return sentence.Errorf(sentence.ErrNotReady, "ringlet on %s is older than its cluster, which uses level %d of the protocol (this release: at most %d), and hands out no new addresses: upgrade ringlet on this host; until then its containers keep their addresses", s.cfg.Name, s.log.Level(), s.cfg.Spoken)
}

// outside returns why a peer that is in no roster hands out nothing.
func (s *Membership) outside() error {
	switch {
	case s.state.Slot == 0 && s.Seeker.LostNetworks() > 0:
		return passing("ringlet on %s has a new database, but its engine has %s of ringlet, and other hosts may hold addresses of these: set RINGLET_JOIN to another host of the cluster, or RINGLET_BOOTSTRAP=1 if there is none", s.cfg.Name, sentence.Plural(s.Seeker.LostNetworks(), "network", "networks"))
	case s.Seeker.LooksFirst(s.state.Slot):
		return passing("ringlet on %s has a new database and looks for hosts that are in a cluster, before it founds one because of RINGLET_BOOTSTRAP=1: try again in a minute", s.cfg.Name)
	case s.Seeker.IsForming(s.state.Slot):
		return passing("ringlet on %s waits for the other hosts that found its cluster: it needs a majority of the %d hosts, and reaches %d, itself included; start ringlet on the others, and see ringlet status", s.cfg.Name, s.cfg.Plan.Size, s.Seeker.Met(s.View()))
	case s.state.Slot == 0 && s.cfg.Plan.NamesNobody:
		return passing("ringlet on %s has not found its cluster yet, and RINGLET_JOIN is empty: set RINGLET_BOOTSTRAP=1 if it is the only host, else RINGLET_JOIN to another one, and see ringlet status", s.cfg.Name)
	case s.state.Slot == 0:
		return passing("ringlet on %s has not found its cluster yet: check that the hosts in RINGLET_JOIN run ringlet and are reachable, and see ringlet status", s.cfg.Name)
	}
	return passing("ringlet on %s waits to be admitted to its cluster: check that a majority of the other hosts runs, and see ringlet status", s.cfg.Name)
}

// NoMajority says that a decision was not made in time.
func (s *Membership) NoMajority() error {
	v := s.View()
	live := v.LiveVoters()
	away := slices.DeleteFunc(s.state.Voters(), func(id peer.ID) bool { return slices.Contains(live, id) })
	if len(s.state.Roster) == 2 && len(away) == 1 {
		return sentence.NoVoteOfOther(s.cfg.Name, v.NameOf(away[0]))
	}
	return sentence.NoAgreement(s.cfg.Name, v.NamesOf(away))
}

// AwaitLevel refuses for now what hosts of an earlier release could not follow (R10).
func (s *Membership) AwaitLevel(level chronicle.Level) error {
	if s.state.Level >= level {
		return nil
	}
	return passing("not all hosts of the cluster run this release yet: upgrade the others, and see ringlet peers")
}

// voter answers what the log asks about this peer and the others.
type voter struct{ s *Membership }

func (v voter) Live() []peer.ID           { return v.s.View().LiveVoters() }
func (v voter) IsCutOff() bool            { return v.s.View().CutOff() }
func (v voter) MayFollow() bool           { return !v.s.IsSuspended() }
func (v voter) MayVote() bool             { return v.s.TakesPart() }
func (v voter) Founders() int             { return v.s.cfg.Plan.Size }
func (v voter) Formation() wire.Formation { return v.s.formation() }
func (v voter) Seat(id peer.ID) peer.ID   { return v.s.Seeker.SeatOf(v.s.View(), id) }
func (v voter) Seated(id peer.ID) peer.ID { return v.s.Seeker.Seated(v.s.View(), id) }

func (v voter) MayFound(asker peer.ID, f wire.Formation) bool {
	return v.s.Seeker.MayFound(v.s.View(), asker, f)
}

// formation returns what messages about slot 1 carry.
func (s *Membership) formation() wire.Formation { return s.Seeker.Formation(s.state.Slot) }

// TakesPart reports whether this peer may vote on slots and propose them, where it is of the roster: what it knows is current,
// whole and understood.
func (s *Membership) TakesPart() bool {
	return (!s.IsChecking() || s.Check.Completes(s.View(), s.undecided())) && !s.IsSuspended() && s.log.Err() == nil && !s.log.IsOutdated()
}

// undecided reports whether this peer has accepted a change of the roster, or of a zone, in the slot that is next: what may change
// who votes. That may be decided although it does not know, and those who decide the slots behind it need not be of the present
// roster: they may have evicted a peer, and given up its space, of which neither it nor a majority that it knows has heard.
func (s *Membership) undecided() bool {
	return !s.lacks(rule.Undecided) && s.log.Accepted(func(a chronicle.Action) bool {
		switch a.(type) {
		case chronicle.Admit, chronicle.Evict, chronicle.Retire, chronicle.SetZone:
			return true
		}
		return false
	})
}
