package membership

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/suspend"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Arrival is what a frame is to the rest of the peer.
type Arrival struct {
	Counts bool // it is for this peer and its cluster, and of the latest start of its author
	First  bool // that counts and came from there since this peer started
	Later  bool // its author has started again since the last one
	// GivesWay says that this peer is to dissolve its cluster, for that of the author: it drops its pools, and then follows
	// [Membership.GiveWay].
	GivesWay bool
}

// Admit takes in a frame that came from a host in that seat, but for what it says.
func (s *Membership) Admit(f *wire.Frame, seat int) (a Arrival) {
	is := cluster.Start{Boot: f.Boot, Nonce: f.Nonce}
	if f.From == s.Self() {
		s.stopIf(s.Suspension.TakeDouble(is))
		return a
	}
	if f.To != s.Self() && f.To != peer.None {
		return a // it was for a peer that was here before
	}
	s.contacts.TakeSeat(f.From, seat)
	if twin, ok := f.Body.(wire.Twin); ok {
		s.stopIf(s.Suspension.TakeTwin(s.View(), f.From, twin))
		return a
	}
	// A frame of an earlier start is late, or the sender's database went back in time or was copied. The sender can tell, so
	// it is told (protocol, 6.6).
	var counts bool
	if counts, a.Later = s.contacts.TakeStart(s.View(), f.From, is); !counts {
		known := s.contacts.Of(f.From).Start
		s.out.Send(f.From, wire.Copied{Boot: is.Boot, Nonce: is.Nonce, KnownBoot: known.Boot, KnownNonce: known.Nonce})
		return a
	}
	if a.Later {
		s.log.Restarted(f.From)
	}
	none := [16]byte{}
	if f.Cluster != none && f.Cluster != s.state.Cluster && s.state.Cluster != none {
		a.GivesWay = s.meetForeign(f)
		return a
	}
	a.Counts = true
	a.First = s.contacts.Hear(s.View(), &f.Header)
	s.NewDB.Hear(f.From)
	s.compare(f)
	s.news = s.Check.MeetMajority(s.View()) || s.news
	return a
}

// Take takes in what a frame says that counts, if it is about who takes part. It returns what is to be proposed because of that.
func (s *Membership) Take(f *wire.Frame) (actions []chronicle.Action, taken bool) {
	switch b := f.Body.(type) {
	case wire.Hello:
		s.meet(f.From, b)
		s.welcome(f.From, b.Question)
	case wire.Welcome:
		s.meet(f.From, b.Hello)
		return s.takeWelcome(f, b), true
	case wire.Copied:
		s.takeLatest(s.Suspension.TakeCopied(s.View(), f.From, b))
	case wire.Join:
		return s.takeJoin(f, b), true
	case wire.UsedUp:
		// One that knows that it has left stays out as it is.
		if s.state.Slot > 0 && !s.IsMember() && !s.Wish.HasLeft() {
			s.stopIf(s.Suspension.TakeUsedUp(s.View().NameOf(f.From)))
		}
	case wire.Report:
		s.news = s.departures.TakeReport(f.From, b) || s.news
	case wire.Beat:
	default:
		return nil, false
	}
	return nil, true
}

// meet takes in how another peer introduces itself.
func (s *Membership) meet(id peer.ID, h wire.Hello) {
	s.contacts.Introduce(s.View(), id, h.Name, h.Machine, h.Spoken)
	s.NewDB.TakeListing(id, h.Listing)
	s.Seeker.Meet(s.View(), id, h.Formation, h.Observer)
}

// meetForeign takes in a frame of another cluster, and reports whether this peer gives way to it. Clusters that meet do not merge
// (protocol, 6.4).
func (s *Membership) meetForeign(f *wire.Frame) (givesWay bool) {
	h, asks := f.Body.(wire.Hello)
	met := s.contacts.HearForeign(s.View(), &f.Header, h.Name)
	if asks {
		s.welcome(f.From, h.Question) // so that it knows as well
	}
	return s.givesWay(f.Cluster, met)
}

// Lags reports whether the author of a frame knows slots that this peer does not, and may learn: those of its own cluster, or, if it
// has none and may not found one, those of any.
func (s *Membership) Lags(f *wire.Frame) bool {
	return f.Slot > s.state.Slot && f.Cluster != [16]byte{} && (f.Cluster == s.state.Cluster || s.state.Slot == 0 && s.Seeker.Joins())
}

// compare holds another peer's digest of the same slot against this one's. They differ only by a defect. The peer that is not with a
// majority of the voters stops handing out (protocol, 9).
func (s *Membership) compare(f *wire.Frame) {
	if f.Slot != s.state.Slot || f.Slot == 0 || f.Cluster != s.state.Cluster || f.Digest == s.log.Digest() {
		return
	}
	if s.log.IsOutdated() || s.View().Older(f.From) {
		return // the two write the same state in different ways
	}
	if s.lacks(rule.Digests) || !s.contacts.Compare(s.View(), &f.Header, s.log.Digest()) {
		return
	}
	s.stopIf(s.Suspension.Suspend(suspend.Differs, fmt.Sprintf("the state of this peer at slot %d differs from that of %s: one of the two has a defect", f.Slot, s.View().NameOf(f.From))))
}

// TakePresence takes in what the carrier believes of another peer, and in which seat its host is. It reports whether the peer comes
// or goes with that.
func (s *Membership) TakePresence(id peer.ID, alive bool, name peer.Name, addr string, seat int) (turns bool) {
	if id == s.Self() || id == peer.None {
		return false
	}
	turns, renamed := s.contacts.TakePresence(s.View(), id, alive, name, addr)
	s.contacts.TakeSeat(id, seat)
	s.news = s.news || turns || renamed
	if alive && s.state.Slot == 0 {
		s.Greet(id)
	}
	return turns
}

// TakeSeat takes in in which seat this host is.
func (s *Membership) TakeSeat(seat int) {
	if s.state.Slot == 0 && s.Seeker.TakeSeat(seat) {
		for _, id := range s.View().Known() {
			s.Greet(id) // who has heard from it was told of no seat
		}
	}
	s.news = true
}

// Begin gives the peer its ID, if it has none yet, and raises its boot: both are on disk before anything is answered. It is the
// first thing in the first step.
func (s *Membership) Begin() {
	s.Me.Begin(s.cfg.Rand)
	s.log.Begin(s.Self(), s.Me.Boot())
	s.Suspension.Begin(cluster.Start{Boot: s.Me.Boot(), Nonce: s.Me.Nonce()})
	s.saveIdentity()
	s.engine.Start(s.Me.Nonce())
	s.Seeker.Start(s.Self())
	if set := s.Me.BeginClock(s.cfg.HostBoot); !set.IsZero() {
		s.engine.SetClock(set)
	}
}

func (s *Membership) saveIdentity() {
	s.Me.Save(s.Suspension.LatestBoot(), s.cfg.Name, s.cfg.Machine)
}

// Open finds out whether the database may be used, after [Membership.Begin]. strays says that an earlier release has applied the
// slot that gave up space of this peer, and left what was held there. It reports whether [Membership.Enter] is to follow.
func (s *Membership) Open(strays bool) bool {
	s.Me.SetLabel(s.cfg.Label)
	s.stopIf(s.Suspension.TakePlace(s.cfg.Place))
	s.Suspension.SavePlace(s.cfg.Place)
	if !s.Wish.HasLeft() {
		s.stopIf(s.Suspension.LookAt(s.Self(), s.state))
	}
	s.stopIf(strays && s.Suspension.Lost())
	if s.IsSuspended() {
		s.greetAll()
		return false
	}
	return true
}

// Enter has a peer that may use its database be in its cluster, look for one, or found one.
func (s *Membership) Enter() Founding {
	if s.state.Slot > 0 {
		s.beginCheck()
		return Founding{}
	}
	if s.Me.IsFirst() {
		s.NewDB.Begin(s.Seeker.MayMeetOthers())
	}
	if s.Seeker.Begin(!s.Me.IsFirst()) {
		return s.foundAlone()
	}
	return Founding{}
}

// beginCheck begins the boot check of a peer that is not alone.
func (s *Membership) beginCheck() {
	if s.state.Slot == 0 || s.View().Alone() {
		return
	}
	s.Check.Begin(s.Self(), bootcheck.Wait(s.cfg.CallTime), s.cfg.Rand.Uint64())
	s.greetAll()
}

// CheckBoot ends the boot check when it can.
func (s *Membership) CheckBoot() {
	if !s.IsChecking() {
		return
	}
	undecided := s.undecided()
	if undecided {
		s.log.FinishSlot()
	}
	if s.Check.Look(s.View(), undecided, s.log.IsOutdated(), s.cfg.BootAlone) {
		s.log.SendAgain()
		s.news = true
		return
	}
	if s.out.Passed(askEvery, s.greetedAt) {
		s.greetAll()
	}
}

// Disturb has this peer go on after somebody has set its clock by that much, or frozen the process: in either case it may have missed
// that much. What must last for a time begins to last anew (R66), and what was heard before counts no more (R67). Who has missed much
// asks the others as after a start (R11): they may have evicted this peer meanwhile, and given up its space. It reports whether this
// one has.
func (s *Membership) Disturb(by, missed time.Duration) (much bool) {
	if !s.lacks(rule.Disturbed) {
		s.engine.SetClock(s.out.Now())
		s.Me.Disturb(by)
	}
	if missed < bootcheck.Slumber {
		return false
	}
	if !s.lacks(rule.Awake) { // R11
		s.Check.Stop()
		s.beginCheck()
	}
	return true
}

// Granted watches for a freeze, as something was granted. A host that has left has nobody to ask behind one.
func (s *Membership) Granted() {
	if !s.Wish.HasLeft() {
		s.Check.Granted()
	}
}

const (
	// askEvery is how often a peer that checks its database says hello to those that have not answered.
	askEvery = 500 * time.Millisecond
	// callEvery is how often a peer without a cluster says hello to all that it knows.
	callEvery = time.Second
)

// greetAll says hello to all that this peer knows.
func (s *Membership) greetAll() {
	s.greetedAt = s.out.Now()
	for _, id := range s.View().Known() {
		// Who has just said who it is need not be asked again while a cluster is looked for, only for the answer to a boot check.
		if v := s.View(); !s.IsChecking() && v.Fresh(v.Of(id).Met, cluster.ReachTime) {
			continue
		}
		if !s.Check.HasAnswered(id) {
			s.Greet(id)
		}
	}
}

// Greet says hello to one peer.
func (s *Membership) Greet(id peer.ID) { s.out.Send(id, s.hello(s.Check.Question())) }

// hello is how this peer introduces itself, with a question that the answer repeats.
func (s *Membership) hello(question uint64) wire.Hello {
	return wire.Hello{
		Name: s.cfg.Name, Machine: s.cfg.Machine, Formation: s.formation(), Observer: s.cfg.Plan.Observer,
		Listing: s.NewDB.Listing(), Spoken: s.cfg.Spoken, Question: question,
	}
}

// welcome answers a hello, from what is on disk. Where that is known to be wrong, the answer says of nobody's start that it is known.
func (s *Membership) welcome(to peer.ID, question uint64) {
	undecided := s.undecided()
	if undecided {
		s.log.FinishSlot() // it cannot go on before that
	}
	known := s.contacts.Of(to).Start
	if s.IsSuspended() || s.log.Err() != nil {
		known = cluster.Start{}
	}
	if s.Wish.HasLeft() && !s.IsMember() {
		question = 0 // a device may have sent its Join of before it left again, and this would have it admitted (R63)
	}
	s.out.Send(to, wire.Welcome{Hello: s.hello(question), Undecided: undecided, Boot: known.Boot, Nonce: known.Nonce})
}

// takeWelcome counts an answer to this peer's hello.
func (s *Membership) takeWelcome(f *wire.Frame, w wire.Welcome) []chronicle.Action {
	s.takeLatest(s.Suspension.TakeLatest(s.View(), f.From, cluster.Start{Boot: w.Boot, Nonce: w.Nonce}))
	if (f.Cluster != s.state.Cluster || !s.Me.Is(w.Boot, w.Nonce)) && !s.lacks(rule.Counted) {
		return nil // who is in no cluster knows nothing of this one
	}
	s.Check.Take(f.From, w.Question, f.Slot, w.Undecided)
	return s.takeAnswered(f.From, w.Question)
}
