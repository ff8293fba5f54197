package membership

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// voter answers what the log asks about this peer and the others.
type voter struct{ s *Membership }

func (v voter) Live() []peer.ID           { return v.s.View().LiveVoters() }
func (v voter) IsCutOff() bool            { return v.s.View().CutOff() }
func (v voter) MayFollow() bool           { return !v.s.IsSuspended() }
func (v voter) MayVote() bool             { return v.s.TakesPart() }
func (v voter) Founders() int             { return v.s.cfg.Plan.Size }
func (v voter) Formation() wire.Formation { return v.s.Formation() }
func (v voter) Seat(id peer.ID) peer.ID   { return v.s.Seeker.SeatOf(v.s.View(), id) }
func (v voter) Seated(id peer.ID) peer.ID { return v.s.Seeker.Seated(v.s.View(), id) }

func (v voter) MayFound(asker peer.ID, f wire.Formation) bool {
	return v.s.Seeker.MayFound(v.s.View(), asker, f)
}

// Formation returns what messages about slot 1 carry.
func (s *Membership) Formation() wire.Formation { return s.Seeker.Formation(s.state.Slot) }

// TakesPart reports whether this peer may vote on slots and propose them, where it is of the roster: what it knows is current,
// whole and understood.
func (s *Membership) TakesPart() bool {
	return (!s.IsChecking() || s.Check.Completes(s.View(), s.Undecided())) && !s.IsSuspended() && s.log.Err() == nil && !s.log.IsOutdated()
}

// Undecided reports whether this peer has accepted a change of the roster, or of a zone, in the slot that is next: what may change
// who votes. That may be decided although it does not know, and those who decide the slots behind it need not be of the present
// roster: they may have evicted a peer, and given up its space, of which neither it nor a majority that it knows has heard.
func (s *Membership) Undecided() bool {
	return !s.lacks(rule.Undecided) && s.log.Accepted(func(a chronicle.Action) bool {
		switch a.(type) {
		case chronicle.Admit, chronicle.Evict, chronicle.Retire, chronicle.SetZone:
			return true
		}
		return false
	})
}
