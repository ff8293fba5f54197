package formation

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// KeyGaveWay is the key of the record that this peer dissolved its cluster to join another.
const (
	KeyGaveWay     = "gave way"
	bucketIdentity = "identity"
	formatGaveWay  = 1
)

const (
	// lookTime is how long a peer looks for others before it founds a cluster that may not be the only one: a peer that
	// knows it from before its database was lost calls it every 30 seconds, more or less.
	lookTime = 45 * time.Second
	// foundAfter is how long a peer waits for the others once it could found a cluster with those that it has met, so that
	// more of them are in it from the start.
	foundAfter = time.Second
	// applyEvery is how often a peer that is in no roster asks to be admitted.
	applyEvery = time.Second
	// stubborn is for how long a foreign cluster must have been met before it is taken for one that does not give way.
	stubborn = 5 * time.Second
	// strayAfter is for how long nobody of a cluster must be there before a peer that is about to join it turns from it.
	strayAfter = time.Minute
)

// Seeker is a peer on its way into a cluster. Use [NewSeeker].
type Seeker struct {
	out     *effect.Writer
	cfg     Config
	started time.Time

	joins       bool                       // it founds no cluster alone, as things are; at first as it was told
	defers      bool                       // it founds a cluster only if the engine has no networks
	founding    bool                       // it has begun to found one
	networks    int                        // how many the engine has that the new database does not know
	seat        int                        // its place in the list of the hosts that found a cluster, from 1; 0: none
	seats       []peer.ID                  // which peers take part, where the hosts know only their number
	forming     map[peer.ID]bool           // which peers would found a cluster with this one
	misfits     map[peer.ID]wire.Formation // which would found another one
	enoughSince time.Time                  // since when it could found a cluster with those that it has met
	gaveWay     time.Time                  // when it last dissolved its cluster, or started after that; zero: never
	lonely      time.Time                  // since when nobody is left in the cluster that it is about to join; zero: somebody is
	appliedAt   time.Time
}

// NewSeeker returns a seeker that has met nobody.
func NewSeeker(out *effect.Writer) *Seeker {
	return &Seeker{out: out, forming: map[peer.ID]bool{}, misfits: map[peer.ID]wire.Formation{}}
}

// Configure sets what the peer is told.
func (s *Seeker) Configure(cfg Config) {
	s.cfg = cfg
	s.joins, s.seat = cfg.Join, cfg.Plan.Seat
}

func (s *Seeker) lacks(r rule.Set) bool { return s.cfg.Rules.Has(r) }

// RestoreGaveWay takes in the record that this peer gave way before this start.
func (s *Seeker) RestoreGaveWay(value []byte) error {
	s.gaveWay = time.Unix(0, 0) // the start counts from then on
	r := codec.NewReader(value)
	r.Format(formatGaveWay, "a note that a cluster was dissolved")
	return r.Done()
}

// Start begins a start of this peer.
func (s *Seeker) Start(self peer.ID) {
	s.started = s.out.Now()
	s.seats = []peer.ID{self}
	if s.HasGivenWay() {
		s.gaveWay = s.started
	}
}

// Begin has a peer without a cluster look for one. It reports whether the peer is to found one alone at once. before
// says that an earlier start has looked for one, too: then the peer must not found another one beside it, unless an
// operator has said that it is to.
func (s *Seeker) Begin(before bool) (founds bool) {
	s.defers = s.cfg.Hesitate && (!s.HasGivenWay() || s.cfg.FoundAlone)
	s.joins = s.joins || s.defers && s.cfg.Plan.Size == 0 || before && !s.cfg.FoundAlone
	return !s.joins && s.cfg.Plan.Size == 0
}

// MayMeetOthers reports whether the cluster that this peer comes to may have other peers. A peer that founds one without
// a look has none: if it meets others it gives way.
func (s *Seeker) MayMeetOthers() bool {
	return s.cfg.Join || s.cfg.Hesitate || s.cfg.FoundAlone || s.cfg.Plan.Size > 0
}

// Joins reports whether this peer learns the slots of whatever cluster it meets, while it has none.
func (s *Seeker) Joins() bool { return s.joins || s.cfg.Plan.Size > 0 }

// HasGivenWay reports whether this peer has ever dissolved its cluster to join another.
func (s *Seeker) HasGivenWay() bool { return !s.gaveWay.IsZero() }

// IsFounding reports whether this peer has begun to found a cluster.
func (s *Seeker) IsFounding() bool { return s.founding }

// IsForming reports whether this peer founds a cluster with others.
func (s *Seeker) IsForming(slot uint64) bool {
	return s.Formation(slot).Size > 0 && !s.cfg.Plan.Observer
}

// Formation returns what messages about slot 1 carry, as this peer stands at that slot.
func (s *Seeker) Formation(slot uint64) wire.Formation {
	if plan := s.cfg.Plan; slot == 0 && (plan.List == 0 || s.seat != 0) {
		return wire.Formation{Size: uint32(plan.Size), List: plan.List}
	}
	return wire.Formation{} // it is not among those who found it
}

// TakeSeat takes in which place this host has in the list. It reports whether that is another one.
func (s *Seeker) TakeSeat(seat int) bool {
	was := s.seat
	s.seat = seat
	return was != seat
}

// HasSeat reports whether this host is in the list.
func (s *Seeker) HasSeat() bool { return s.seat > 0 }

// SeatOf returns the seat by which slot 1 counts the host of a peer: its place in the list, or, where there is none, its
// place among those that this peer has met. A host votes once, whatever IDs it had (R39).
func (s *Seeker) SeatOf(v cluster.View, id peer.ID) peer.ID {
	if s.isListed() {
		seat := s.seat
		if id != v.Self {
			seat = v.Of(id).Seat
		}
		if seat < 1 || seat > s.cfg.Plan.Size {
			return peer.None
		}
		return paxos.Seat(seat)
	}
	if i := slices.Index(s.seats, id); i >= 0 {
		return paxos.Seat(i + 1)
	}
	return peer.None
}

// isListed reports whether the hosts that found a cluster together are known by their places in a list.
func (s *Seeker) isListed() bool { return s.cfg.Plan.List != 0 && !s.lacks(rule.Seats) }

// Seated returns the peer that was last heard from in a seat, or [peer.None].
func (s *Seeker) Seated(v cluster.View, seat peer.ID) peer.ID {
	if s.SeatOf(v, v.Self) == seat {
		return v.Self
	}
	return s.founders(v)[seat]
}

// founders returns the other peers that would found a cluster with this one, by seat: of those that came from one host
// the one that was heard from last.
func (s *Seeker) founders(v cluster.View) map[peer.ID]peer.ID {
	out := map[peer.ID]peer.ID{}
	own := s.SeatOf(v, v.Self)
	for id := range s.forming {
		seat := s.SeatOf(v, id)
		if seat == peer.None || seat == own {
			continue
		}
		heard, before := v.Of(id).Heard, v.Of(out[seat]).Heard
		if other, taken := out[seat]; !taken || heard.After(before) || heard.Equal(before) && id.Compare(other) < 0 {
			out[seat] = id
		}
	}
	return out
}

// Met returns how many of the hosts that found the cluster have been met and can be reached, this one among them.
func (s *Seeker) Met(v cluster.View) int {
	n := 1
	for _, id := range s.founders(v) {
		if v.Live(id) {
			n++
		}
	}
	return n
}

// Misfits returns the peers that would found another cluster, with what they say of it.
func (s *Seeker) Misfits() map[peer.ID]wire.Formation { return s.misfits }

// Meet takes in how another peer would found a cluster.
func (s *Seeker) Meet(v cluster.View, id peer.ID, f wire.Formation, observer bool) {
	mine := s.Formation(v.State.Slot)
	if v.State.Slot > 0 || v.Of(id).Cluster != ([16]byte{}) || mine.Size == 0 || f.Size == 0 || observer {
		return
	}
	if f != mine {
		s.misfits[id] = f
		return
	}
	delete(s.misfits, id)
	s.forming[id] = true
	if !s.isListed() && !slices.Contains(s.seats, id) {
		// With a bare number just so many hosts may take part.
		if len(s.seats) < s.cfg.Plan.Size {
			s.seats = append(s.seats, id)
		} else {
			s.misfits[id] = f
		}
	}
}

// MayFound reports whether this peer votes on slot 1, asked by that peer.
func (s *Seeker) MayFound(v cluster.View, from peer.ID, f wire.Formation) bool {
	if s.cfg.Plan.Size == 0 {
		return from == v.Self // the first host
	}
	if s.cfg.Plan.Observer || s.defers || s.SeesCluster(v) {
		return false
	}
	if f != s.Formation(v.State.Slot) {
		s.misfits[from] = f
		return false
	}
	return s.SeatOf(v, v.Self) != peer.None && s.SeatOf(v, from) != peer.None
}

// SeesCluster reports whether a peer that can be reached is in a cluster. Then no other one is founded beside it: hosts
// that lost their databases join those that did not (R36).
func (s *Seeker) SeesCluster(v cluster.View) bool { return !s.lacks(rule.Sight) && v.SeesCluster() }

// TakeNetworks takes in how many networks of this driver the engine has, for a peer that defers until it knows. With none
// the peer is new and founds a cluster. With some it was in a cluster before, or alone, and cannot tell. It reports
// whether the peer is to found one alone now. A peer that an operator told that there is none looks first whether there
// is one after all, as does one that had seen one before this start.
func (s *Seeker) TakeNetworks(v cluster.View, networks int) (founds bool) {
	if !s.defers || s.cfg.FoundAlone && (networks > 0 || s.HasGivenWay()) {
		return false
	}
	forms := s.cfg.Plan.Size > 0
	if !s.cfg.Join || forms {
		s.networks = networks
	}
	if s.networks > 0 || s.SeesCluster(v) {
		return false
	}
	if s.cfg.Join || forms {
		s.defers = false
		return false
	}
	return true
}

// LostNetworks returns how many networks the engine has that the new database does not know, where this keeps the peer
// from founding a cluster.
func (s *Seeker) LostNetworks() int { return s.networks }

// AwaitsList reports whether this peer founds a cluster once the engine's list shows that it has no networks.
func (s *Seeker) AwaitsList(v cluster.View) bool {
	return s.defers && !s.cfg.Join && !s.SeesCluster(v)
}

// LooksFirst reports whether this peer was told to found a cluster alone, and looks for one first: it may have been told
// long ago, and have lost its database since.
func (s *Seeker) LooksFirst(slot uint64) bool { return s.defers && s.cfg.FoundAlone && slot == 0 }

// looksAround reports whether more may be learned of which peers are there, in a moment, than is known.
func (s *Seeker) looksAround(v cluster.View) bool {
	switch passed := v.Now.Sub(s.started); {
	case passed < cluster.ReachTime:
		return true
	case passed >= lookTime:
		return false
	}
	return !v.MetAll()
}

// isForsaken reports whether this peer gave way to a cluster that is no more: it did so a while ago, and of those that
// can be reached nobody is in one. They gave way to each other, by a frame that was late.
func (s *Seeker) isForsaken(v cluster.View) bool {
	return s.HasGivenWay() && !s.cfg.Join && v.Now.Sub(s.gaveWay) >= lookTime && v.MetAll() && !s.SeesCluster(v)
}

// HasLooked reports whether this peer has looked for a cluster for long enough, and is to found one alone.
func (s *Seeker) HasLooked(v cluster.View) bool {
	return s.LooksFirst(v.State.Slot) && !s.looksAround(v) && !s.SeesCluster(v) || s.isForsaken(v)
}

// GoAlone has this peer found a cluster alone.
func (s *Seeker) GoAlone() { s.defers, s.joins = false, false }

// Found returns the command that founds a cluster, alone or with those that this peer has met, if it is time now.
func (s *Seeker) Found(v cluster.View, self chronicle.Founder) (founding chronicle.Found, now bool) {
	forms := s.cfg.Plan.Size > 0
	if v.State.Slot > 0 || s.cfg.Plan.Observer || forms && !s.enough(v) || !forms && s.joins {
		return chronicle.Found{}, false
	}
	founders := []chronicle.Founder{self}
	home := peer.NewID(s.cfg.Rand)
	for _, id := range s.founders(v) {
		c := v.Of(id)
		founders = append(founders, chronicle.Founder{ID: id, Name: c.Name, Boot: c.Start.Boot, Machine: c.Machine})
	}
	slices.SortFunc(founders, func(a, b chronicle.Founder) int { return a.ID.Compare(b.ID) })
	s.founding = true
	return chronicle.Found{Cluster: home, Peers: founders}, true
}

// enough reports whether a majority of the hosts has been met, and it is this peer's turn: those with lower IDs go first.
func (s *Seeker) enough(v cluster.View) bool {
	size := s.cfg.Plan.Size
	met, before := 1, 0
	for _, id := range s.founders(v) {
		met++
		if id.Compare(v.Self) < 0 && v.Live(id) {
			before++
		}
	}
	if s.SeatOf(v, v.Self) == peer.None || 2*met <= size || s.defers || s.SeesCluster(v) {
		s.enoughSince = time.Time{}
		return false
	}
	if s.enoughSince.IsZero() {
		s.enoughSince = v.Now
	}
	wait := foundAfter * time.Duration(min(before, 8))
	if met < size {
		wait += foundAfter
	}
	return v.Now.Sub(s.enoughSince) >= wait
}

// Applies reports whether a peer that is in no roster is to ask for its admission now. It takes note that it does.
func (s *Seeker) Applies() bool {
	if !s.out.Passed(applyEvery, s.appliedAt) {
		return false
	}
	s.appliedAt = s.out.Now()
	return true
}

// GivesWay reports whether the cluster of this peer gives way to another one that was first met at that time, where
// nobody has anything in this peer's. Of two such clusters the one with the higher ID does.
func (s *Seeker) GivesWay(v cluster.View, other [16]byte, met time.Time) bool {
	return bytes.Compare(other[:], v.State.Cluster[:]) <= 0 || v.Now.Sub(met) >= stubborn
}

// HasStrayed reports whether this peer knows a cluster that it was never in, and in which nobody is left, as far as it
// hears, for a minute by now. Who was silent for a moment may have admitted it meanwhile, and would count on its vote.
// A peer that has voted there is not to forget that: it would vote again on the same slots, once it met one that lags
// (R38). One that was in it has left by a command of its own; one that was not may have founded it with others.
func (s *Seeker) HasStrayed(v cluster.View) bool {
	self := v.Self
	was := v.State.Member(self) != nil || v.State.Gone(self) != nil || v.State.Number(self) > 0 || v.State.OwnedBy(self) > 0
	if v.State.Slot == 0 || was || s.cfg.Plan.Size > 0 && !s.cfg.Plan.Observer {
		return false
	}
	if slices.ContainsFunc(v.State.Roster, func(member chronicle.Member) bool { return v.Live(member.ID) }) {
		s.lonely = time.Time{}
		return false
	}
	if s.lonely.IsZero() || v.Now.Before(s.lonely) {
		s.lonely = v.Now
	}
	return v.Now.Sub(s.lonely) >= strayAfter
}

// GiveWay takes note that this peer has dissolved its cluster, and looks for the one that it has seen.
func (s *Seeker) GiveWay() {
	s.joins, s.gaveWay = true, s.out.Now()
	s.out.Put(bucketIdentity, KeyGaveWay, []byte{formatGaveWay})
}

// WasShared reports whether batches that were decided, with all before them, made another peer one of the cluster. A peer
// that was evicted, or that has left and does not know it yet, is in the cluster as far as it knows, and goes on from
// there with whichever peers are there again.
func WasShared(self peer.ID, batch []chronicle.Command) bool {
	return slices.ContainsFunc(batch, func(c chronicle.Command) bool {
		switch a := c.Action.(type) {
		case chronicle.Admit:
			return a.ID != self
		case chronicle.Found:
			return slices.ContainsFunc(a.Peers, func(f chronicle.Founder) bool { return f.ID != self })
		}
		return false
	})
}
