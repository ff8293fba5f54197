package membership

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/codec"
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
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/suspend"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Config is what a peer is told about itself, and about the cluster that it is to be in.
type Config struct {
	formation.Config
	Host                   Host
	NewDB                  newdb.Config
	Name                   peer.Name
	Zone                   peer.Zone
	Machine                uint64 // hash of the machine's ID; 0: none
	Spoken                 chronicle.Level
	Label, Place           string // of the database, see [start.Start.SetLabel] and [suspend.Suspension.TakePlace]
	HostBoot               start.HostBoot
	BootAlone              bool // the boot check may end without a majority
	CallTime               time.Duration
	EvictAfter, Quarantine time.Duration // 0: never by itself
}

// Membership is whether, and as what, this peer takes part in its cluster. Use [New]. It is not safe for concurrent use.
type Membership struct {
	cfg       Config
	out       *effect.Writer
	engine    *engine.Engine
	log       *replog.Log
	state     *chronicle.State // the log's
	viewed    time.Time        // the time of a view, see [Membership.At]; zero: that of the step
	news      bool             // see [Membership.TakeNews]
	greetedAt time.Time        // when this peer last said hello to all that it knows

	contacts   *cluster.Contacts
	admissions formation.Admissions
	departures *departure.Departures

	// The rest of the peer reads these.
	Me         *start.Start
	Seeker     *formation.Seeker
	NewDB      *newdb.Database
	Check      *bootcheck.Check
	Suspension *suspend.Suspension
	Wish       *leave.Wish
	Former     *former.Peer
}

// New returns the membership of a peer without a database. [Membership.Configure] is to follow.
func New(out *effect.Writer, e *engine.Engine) *Membership {
	s := &Membership{
		out:        out,
		engine:     e,
		contacts:   cluster.New(out),
		admissions: formation.Admissions{},
		departures: departure.New(out),
		Me:         start.New(out),
		Seeker:     formation.NewSeeker(out),
		Check:      bootcheck.New(out),
		Suspension: suspend.New(out),
		Wish:       leave.New(out),
		Former:     former.New(out),
	}
	s.NewDB = newdb.New(out, e, s.Me)
	s.log = replog.New(out, voter{s})
	s.state = s.log.State()
	return s
}

// Log returns the log that this peer follows, and votes on.
func (s *Membership) Log() *replog.Log { return s.log }

// Configure sets what the peer is told.
func (s *Membership) Configure(cfg Config) {
	s.cfg = cfg
	s.contacts.Configure(cfg.Rules)
	s.Seeker.Configure(cfg.Config)
	s.NewDB.Configure(cfg.NewDB)
	s.Check.Configure(cfg.Rules)
	s.Suspension.Configure(cfg.Rules)
	s.departures.Configure(cfg.Rules)
}

func (s *Membership) lacks(r rule.Set) bool { return s.cfg.Rules.Has(r) }

// TakeNews reports, once, whether something has happened for which calls may wait.
func (s *Membership) TakeNews() bool {
	news := s.news
	s.news = false
	return news
}

// At returns the membership as a view sees it at that time. It must not be changed.
func (s *Membership) At(now time.Time) *Membership {
	view := *s
	view.viewed = now
	return &view
}

// View is the cluster as this peer sees it in this step.
func (s *Membership) View() cluster.View {
	now := s.out.Now()
	if !s.viewed.IsZero() {
		now = s.viewed
	}
	return cluster.View{Contacts: s.contacts, Self: s.Self(), Name: s.cfg.Name, State: s.state, Now: now, Undisturbed: s.Me.Undisturbed()}
}

// Self returns the ID of this peer, [peer.None] before its first step ever.
func (s *Membership) Self() peer.ID { return s.Me.ID() }

// Header returns the header of what this peer sends now.
func (s *Membership) Header() wire.Header {
	return wire.Header{
		Cluster: s.state.Cluster, From: s.Self(), Boot: s.Me.Boot(), Nonce: s.Me.Nonce(),
		Slot: s.state.Slot, Digest: s.log.Digest(),
	}
}

// Beat makes the frame that shows what this peer knows, if that has changed and there is anybody to see it.
func (s *Membership) Beat() {
	if s.contacts.IsEmpty() && !s.Seeker.Joins() {
		return
	}
	if !s.out.HasShown(s.state.Slot, s.Me.Boot(), s.state.Cluster) {
		s.out.Beat(s.Header())
	}
}

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

// founder is how this peer introduces itself.
func (s *Membership) founder() chronicle.Founder {
	return chronicle.Founder{ID: s.Self(), Name: s.cfg.Name, Boot: s.Me.Boot(), Machine: s.cfg.Machine}
}

// passing refuses for a cause that may pass.
func passing(format string, args ...any) error {
	return sentence.Wait(sentence.Errorf(sentence.ErrNotReady, format, args...))
}

// Restore takes in a record of bucket "identity".
func (s *Membership) Restore(key string, value []byte) error {
	switch key {
	case start.KeySelf, start.KeyClock, start.KeyLabel:
		return s.Me.Restore(key, value)
	case newdb.Key:
		return s.NewDB.Restore(value)
	case leave.KeyLeft, leave.KeyDrained:
		return s.Wish.Restore(key, value)
	case formation.KeyGaveWay:
		return s.Seeker.RestoreGaveWay(value)
	case suspend.KeyOld, suspend.KeyGivenUp, suspend.KeyPlace:
		return s.Suspension.Restore(key, value)
	case former.Key:
		return s.Former.Restore(value)
	}
	return fmt.Errorf("%w: its key", codec.ErrCorrupt)
}

// RestoreContact takes in a record of [cluster.Bucket].
func (s *Membership) RestoreContact(key, value []byte) error { return s.contacts.Restore(key, value) }
