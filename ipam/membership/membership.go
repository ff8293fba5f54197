package membership

import (
	"time"

	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/former"
	"github.com/ringlet/ringlet/ipam/leave"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/suspend"
)

// Config is what a peer is told about itself, and about the cluster that it is to be in.
type Config struct {
	formation.Config
	NewDB   newdb.Config
	Name    peer.Name
	Machine uint64 // hash of the machine's ID; 0: none
}

// Membership is whether, and as what, this peer takes part in its cluster. Use [New]. It is not safe for concurrent use.
type Membership struct {
	cfg    Config
	out    *effect.Writer
	log    *replog.Log
	state  *chronicle.State // the log's
	viewed time.Time        // the time of a view, see [Membership.At]; zero: that of the step

	Me         *start.Start
	Contacts   *cluster.Contacts
	Seeker     *formation.Seeker
	Admissions formation.Admissions
	NewDB      *newdb.Database
	Check      *bootcheck.Check
	Suspension *suspend.Suspension
	Wish       *leave.Wish
	Former     *former.Peer
	Departures *departure.Departures
}

// New returns the membership of a peer without a database. [Membership.Configure] is to follow.
func New(out *effect.Writer, e *engine.Engine) *Membership {
	s := &Membership{
		out:        out,
		Me:         start.New(out),
		Contacts:   cluster.New(out),
		Seeker:     formation.NewSeeker(out),
		Admissions: formation.Admissions{},
		NewDB:      newdb.New(out, e),
		Check:      bootcheck.New(out),
		Suspension: suspend.New(out),
		Wish:       leave.New(out),
		Former:     former.New(out),
		Departures: departure.New(out),
	}
	s.log = replog.New(out, voter{s})
	s.state = s.log.State()
	return s
}

// Log returns the log that this peer follows, and votes on.
func (s *Membership) Log() *replog.Log { return s.log }

// Configure sets what the peer is told.
func (s *Membership) Configure(cfg Config) {
	s.cfg = cfg
	s.Contacts.Configure(cfg.Rules)
	s.Seeker.Configure(cfg.Config)
	s.NewDB.Configure(cfg.NewDB)
	s.Check.Configure(cfg.Rules)
	s.Suspension.Configure(cfg.Rules)
	s.Departures.Configure(cfg.Rules)
}

func (s *Membership) lacks(r rule.Set) bool { return s.cfg.Rules.Has(r) }

// At returns the membership as a view sees it at that time. It must not be changed.
func (s *Membership) At(now time.Time) *Membership {
	view := *s
	view.viewed = now
	return &view
}

func (s *Membership) now() time.Time {
	if s.viewed.IsZero() {
		return s.out.Now()
	}
	return s.viewed
}

// View is the cluster as this peer sees it in this step.
func (s *Membership) View() cluster.View {
	return cluster.View{Contacts: s.Contacts, Self: s.Self(), Name: s.cfg.Name, State: s.state, Now: s.now(), Undisturbed: s.Me.Undisturbed()}
}

// Self returns the ID of this peer, [peer.None] before its first step ever.
func (s *Membership) Self() peer.ID { return s.Me.ID() }

// IsSuspended reports whether this peer is suspended: its database must not be used as it stands, and an operator has to decide.
// It stays at the slot that it knows: it follows no more slots, so that nothing of its space changes hands under the containers of
// its host. It answers an engine that starts, serves releases, hands out nothing, votes on nothing and asks for no admission.
func (s *Membership) IsSuspended() bool { return s.Suspension.Is() }

// IsChecking reports whether the boot check is under way: in it this peer neither votes nor hands out (protocol, 6.6).
func (s *Membership) IsChecking() bool { return s.Check.IsRunning() }

// IsMember reports whether this peer is in the roster.
func (s *Membership) IsMember() bool { return s.log.Member() != nil }

// IsDraining reports whether this peer is to give up its space.
func (s *Membership) IsDraining() bool {
	member := s.log.Member()
	return member != nil && member.Phase == chronicle.Draining
}

// Machine returns what tells this peer's machine from others, as the cluster was told when it admitted this peer: the host may
// have another name since, and what is taken over goes by what the cluster knows.
func (s *Membership) Machine() uint64 {
	if member := s.log.Member(); member != nil {
		return member.Machine
	}
	return s.cfg.Machine
}

// IsPredecessor is [departure.IsPredecessor] for this peer.
func (s *Membership) IsPredecessor(id peer.ID) bool {
	return departure.IsPredecessor(s.View(), s.Machine(), id)
}
