package suspend

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Reason is why a peer is suspended, the gravest first: one that has several has the gravest. The first two are on disk, and each
// start finds the third out anew.
type Reason byte

// The reasons, and what ends them.
const (
	None        Reason = iota
	GivenUp            // its space was given up, by ringlet forget or a successor, and others may use its addresses: ringlet rejoin
	OldDatabase        // its database went back in time: ringlet rejoin
	OtherPlace         // its database was written at another place: ringlet trust if the data was moved, else ringlet rejoin
	Copied             // another start of it is as good as this one: ringlet rejoin where the copy is, then a start of the original
	Differs            // its state is another than that of a majority: nothing, it is a defect
)

// The keys of the records.
const (
	bucketIdentity = "identity"
	KeyGivenUp     = "given up" // why
	KeyOld         = "old"      // why
	KeyPlace       = "place"    // what tells the database's file and machine from others
)

// lostSomehow is why a peer is given up where the state alone tells it: which command did so is not known.
const lostSomehow = "its addresses were released for other hosts, with ringlet forget or by a new peer on the same machine"

// Suspension is whether this peer is suspended, and why. Use [New].
type Suspension struct {
	out       *effect.Writer
	rules     rule.Set // that are taken away, in tests
	reason    Reason
	why       string           // a sentence: "..., because <why>"
	own       cluster.Start    // the present one of this peer
	place     string           // where the database says that it lies
	surpassed peer.Boot        // the boot of a copy that was started later; the next start is to be above it
	accepts   map[peer.ID]bool // which peers know this very start as the latest
}

// New returns that of a peer that is not suspended.
func New(out *effect.Writer) *Suspension {
	return &Suspension{out: out, accepts: map[peer.ID]bool{}}
}

// Begin says which start of this peer this is.
func (s *Suspension) Begin(own cluster.Start) { s.own = own }

// Configure takes rules away, in tests.
func (s *Suspension) Configure(without rule.Set) { s.rules = without }

// Restore takes in a record under [KeyGivenUp], [KeyOld] or [KeyPlace].
func (s *Suspension) Restore(key string, value []byte) error {
	if key == KeyPlace {
		s.place = string(value)
		return nil
	}
	if len(value) == 0 {
		return fmt.Errorf("%w: no reason", codec.ErrCorrupt)
	}
	reason := OldDatabase
	if key == KeyGivenUp {
		reason = GivenUp
	}
	if s.reason != GivenUp {
		s.reason, s.why = reason, string(value)
	}
	return nil
}

// Is reports whether this peer is suspended.
func (s *Suspension) Is() bool { return s.reason != None }

// For reports whether this peer is suspended for that reason.
func (s *Suspension) For(r Reason) bool { return s.reason == r }

// Reason returns why this peer is suspended, [None] if it is not.
func (s *Suspension) Reason() Reason { return s.reason }

// Why returns the sentence that tells it, to follow "because".
func (s *Suspension) Why() string { return s.why }

// Suspend suspends this peer, unless it is for a reason that is as grave. It reports whether it did.
func (s *Suspension) Suspend(r Reason, why string) bool {
	if s.Is() && s.reason <= r {
		return false
	}
	s.reason, s.why = r, why
	switch {
	case s.rules.Has(rule.StoppedDisk):
	case r == GivenUp:
		s.out.Put(bucketIdentity, KeyGivenUp, []byte(why))
	case r == OldDatabase:
		s.out.Put(bucketIdentity, KeyOld, []byte(why))
	}
	*s.out.Note() = effect.Note{Kind: effect.NoteSuspended, Holder: why}
	return true
}

// Outlive suspends this peer since its database went back in time: what it says to be held, and to have been promised,
// may be wrong. It reports whether it did.
func (s *Suspension) Outlive(format string, args ...any) bool {
	return !s.rules.Has(rule.Old) && s.Suspend(OldDatabase, "its database is an old one or a copy: "+fmt.Sprintf(format, args...))
}

// LookFor suspends this peer if a batch that was decided gives its space up: that must happen before, or the space would
// be gone from under its containers (R54). A command that says so need not have any effect. It reports whether it did.
// The error says that the state cannot be copied.
func (s *Suspension) LookFor(v cluster.View, batch []chronicle.Command) (suspends bool, err error) {
	if !slices.ContainsFunc(batch, func(c chronicle.Command) bool { return s.givesUp(v, c) != "" }) {
		return false, nil
	}
	after, err := chronicle.DecodeState(v.State.Encode())
	if err != nil {
		return false, err
	}
	for _, o := range after.Apply(batch) {
		if why := s.givesUp(v, o.Command); why != "" && o.Refused == "" {
			suspends = s.Suspend(GivenUp, why) || suspends
		}
	}
	return suspends, nil
}

// givesUp returns how a command would give up the space of this peer, "" if it does not.
func (s *Suspension) givesUp(v cluster.View, c chronicle.Command) string {
	switch a := c.Action.(type) {
	case chronicle.Forget:
		if a.Peer == v.Self {
			return fmt.Sprintf("its addresses were released for other hosts with ringlet forget on %s", v.NameOf(c.Author))
		}
	case chronicle.Inherit:
		if a.Former == v.Self {
			return fmt.Sprintf("a new peer on the same machine, %s, has taken over its addresses", v.NameOf(c.Author))
		}
	default:
	}
	return ""
}

// LookAt suspends this peer if its space is given up in a state. It reports whether it did.
func (s *Suspension) LookAt(self peer.ID, state *chronicle.State) bool {
	gone := state.Gone(self)
	return gone != nil && gone.Forgotten && s.Suspend(GivenUp, lostSomehow)
}

// Lost suspends this peer since its space was given up, and an earlier release applied the slot that did so.
func (s *Suspension) Lost() bool { return s.Suspend(GivenUp, lostSomehow) }

// TakeUsedUp suspends this peer, which asks to be admitted and never will be: it left, or its space was given up, and its
// database does not say so. It reports whether it did.
func (s *Suspension) TakeUsedUp(by string) bool {
	return s.Suspend(GivenUp, fmt.Sprintf("it was in the cluster before and left, or its addresses were released for other hosts, as %s says", by))
}

// TakePlace suspends this peer if its database was written at another place than it lies at. An empty place is not known.
// It reports whether it did.
func (s *Suspension) TakePlace(place string) bool {
	return s.place != "" && place != "" && s.place != place &&
		s.Suspend(OtherPlace, "its database was written as another file or on another machine: it was moved, or it is a copy, or an old one that was put back")
}

// SavePlace writes down where the database lies, unless an operator has to decide about that.
func (s *Suspension) SavePlace(place string) {
	if place != "" && s.place != place && !s.For(OtherPlace) {
		s.place = place
		s.out.Put(bucketIdentity, KeyPlace, []byte(place))
	}
}

// Trust ends a suspension for [OtherPlace], and for no other reason (R58). It reports whether it did.
func (s *Suspension) Trust(place string) bool {
	if !s.For(OtherPlace) && !s.rules.Has(rule.Trust) {
		return false
	}
	s.reason, s.why = None, ""
	s.SavePlace(place)
	return true
}

// A database may be copied, and the copy started beside its original, or put back in its place after that has gone on.
// Either way a peer that starts from it hands out what is another's by now (protocol, 6.6). Another start of the same
// peer shows it, of which others have heard, or which this one meets.

const twoRun = "another host runs with the ID of this peer: one of the two databases is a copy of the other"

// TakeCopied takes in that a peer refuses a start of this one, for another that it knows.
func (s *Suspension) TakeCopied(v cluster.View, from peer.ID, q wire.Copied) (surpassed, suspends bool) {
	if refused := (cluster.Start{Boot: q.Boot, Nonce: q.Nonce}); refused != s.own {
		return false, false
	}
	return s.TakeLatest(v, from, cluster.Start{Boot: q.KnownBoot, Nonce: q.KnownNonce})
}

// TakeLatest takes in which start of this peer another one knows as the latest. If there is one that is as good as the present
// start or better, this database is a copy, or was put back. Each start has a higher boot: after some more a peer that were not
// suspended for good would pass for the latest. surpassed says that the next start has to be above a boot that was not known.
// suspends is as for [Suspension.Suspend].
func (s *Suspension) TakeLatest(v cluster.View, from peer.ID, latest cluster.Start) (surpassed, suspends bool) {
	if latest == s.own {
		s.accepts[from] = true
		return false, false
	}
	if latest.Boot < s.own.Boot {
		return false, false // it has not heard of this start yet
	}
	s.out.Send(from, wire.Twin{Boot: s.own.Boot, Nonce: s.own.Nonce, OtherBoot: latest.Boot, OtherNonce: latest.Nonce})
	why := fmt.Sprintf("%s has heard from another start of this peer (boot %d, here it is %d)", v.NameOf(from), latest.Boot, s.own.Boot)
	if !s.accepts[from] {
		return false, s.Outlive("%s", why)
	}
	if latest.Boot > s.surpassed {
		// This database was the latest when it started, so it is no old one. Once the other is gone, one more start is enough.
		s.surpassed, surpassed = latest.Boot, true
	}
	return surpassed, s.Suspend(Copied, why+": this database is a copy of another host's, or an old one that was put back")
}

// TakeTwin takes in that an earlier start of a peer still runs beside the latest: of this very peer, which then stops,
// too, since nobody can tell which of the two is the copy, or of the one that answers, whose latest start is told. It
// reports whether it suspends this peer.
func (s *Suspension) TakeTwin(v cluster.View, from peer.ID, q wire.Twin) bool {
	switch other := (cluster.Start{Boot: q.OtherBoot, Nonce: q.OtherNonce}); other {
	case s.own:
		return s.Suspend(Copied, twoRun)
	case v.Of(from).Start:
		s.out.Send(from, q)
	}
	return false
}

// TakeDouble takes in a frame with this peer's own ID. Its own frames may go in circles, and those of an earlier start be
// late. A copy of an earlier start that lives is told by others, see [Suspension.TakeTwin]. It reports whether it
// suspends this peer.
func (s *Suspension) TakeDouble(is cluster.Start) bool {
	return (is.Boot > s.own.Boot || is.Boot == s.own.Boot && is.Nonce != s.own.Nonce) && s.Suspend(Copied, twoRun)
}

// LatestBoot returns the boot above which the next start has to be.
func (s *Suspension) LatestBoot() peer.Boot { return max(s.own.Boot, s.surpassed) }
