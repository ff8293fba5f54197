package paxos

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ringlet/ringlet/ipam/peer"
)

// ErrDecided is returned when a proposer is started whose value is decided:
// the slot needs no further ballot.
var ErrDecided = errors.New("the slot is decided")

// ErrNoRound is returned when no round is left above those seen. Counting does
// not lead there.
var ErrNoRound = errors.New("no ballot round is left above those seen: a peer sent or stored a damaged ballot")

// Phase is how far a [Proposer] has come with its current ballot.
type Phase uint8

// The phases. A ballot that is lost leads on by the next [Proposer.Start], or
// to Decided after all, if a majority had accepted it all the same.
const (
	Idle      Phase = iota // never started, by Start or StartUnprepared
	Preparing              // waits for promises
	Accepting              // waits for acceptances
	Decided                // a majority accepted; final
	Lost                   // a voter has promised a higher ballot
)

// String returns the phase in lower case.
func (p Phase) String() string {
	switch p {
	case Idle:
		return "idle"
	case Preparing:
		return "preparing"
	case Accepting:
		return "accepting"
	case Decided:
		return "decided"
	case Lost:
		return "lost"
	default:
		return fmt.Sprintf("phase %d", uint8(p))
	}
}

// Proposer is one peer's attempt, ballot after ballot, to have a value decided
// in one slot. The peer need not be a voter. Nothing of it is kept on disk: a
// restart begins anew, with a higher boot; that round 0 was used, the acceptor
// of the same peer knows. Use [NewProposer]. It is not safe for concurrent use.
//
// Answers that are late, repeated, to another ballot than the current, or from
// a peer that is no voter, are ignored.
type Proposer struct {
	self       peer.ID
	boot       peer.Boot
	electorate Electorate

	seen   uint64 // highest round known in the slot
	phase  Phase
	ballot Ballot

	// value is the proposer's own until promises name one that was accepted;
	// adopted is the highest ballot they named, zero while none did.
	value   []byte
	adopted Ballot

	promised []peer.ID // voters that promised ballot
	accepted []peer.ID // voters that accepted value at ballot
}

// NewProposer returns an idle proposer of one slot. There is to be one per
// slot and boot: a second could use the ballots of the first again. It refuses
// [peer.None], boot 0, which no started peer has, and an electorate without
// voters.
func NewProposer(self peer.ID, boot peer.Boot, electorate Electorate) (*Proposer, error) {
	switch {
	case self == peer.None:
		return nil, errors.New("a proposer needs a peer ID")
	case boot == 0:
		return nil, fmt.Errorf("proposer %s has boot 0: raise the boot before proposing", self.Short())
	case electorate.total == 0:
		return nil, fmt.Errorf("proposer %s has an electorate without voters", self.Short())
	}
	return &Proposer{self: self, boot: boot, electorate: electorate}, nil
}

// Start begins a new ballot for the proposer's own value and returns what to
// send to every voter. The round is the next above any seen: above, which is
// what the caller knows from elsewhere, such as the promise of its own
// acceptor (0 if nothing); those that refusals named; and the proposer's
// former ones. It is never 0. Answers to a former ballot are ignored from here on.
//
// It fails with [ErrDecided] or [ErrNoRound] and then changes nothing. The
// value is kept, not copied.
func (p *Proposer) Start(own []byte, above uint64) (Prepare, error) {
	if p.phase == Decided {
		return Prepare{}, ErrDecided
	}
	seen := max(p.seen, above)
	if seen == math.MaxUint64 {
		return Prepare{}, ErrNoRound
	}
	p.seen = seen + 1
	p.phase = Preparing
	p.ballot = Ballot{Round: p.seen, Boot: p.boot, Peer: p.self}
	p.value, p.adopted = own, Ballot{}
	p.promised, p.accepted = nil, nil
	return Prepare{Ballot: p.ballot}, nil
}

// StartUnprepared begins the lowest ballot that there is, at round 0, for the
// proposer's own value, and returns what to send to every voter. Nothing can
// have been accepted below it, so nobody is asked to promise it. owner is whose
// round 0 of this slot is: all who take part name the same peer, or
// [peer.None] where there is none. voter is the proposer's own acceptor, which
// accepts the value here and now.
//
// The caller writes voter to disk BEFORE the [Accept] leaves: that is what
// keeps a restart from using the ballot for another value. Whoever has sent
// it proposes in this slot by [Proposer.Start] from then on.
//
// It returns false, and changes nothing, if the ballot is not this peer's, if
// voter has promised or accepted anything, in this boot or an earlier one, or
// if the proposer was started before. The value is kept, not copied.
func (p *Proposer) StartUnprepared(owner peer.ID, own []byte, voter *Acceptor) (Accept, bool) {
	if p.self != owner || p.phase != Idle || !voter.Promised.IsZero() {
		return Accept{}, false
	}
	// Without the boot, a database that was put back does not make a second
	// ballot of it: who has accepted the first value refuses another.
	p.ballot = Ballot{Peer: p.self}
	p.phase = Accepting
	p.value = own
	voter.Accept(p.ballot, own)
	return Accept{Ballot: p.ballot, Value: own}, true
}

// OnPromise counts a promise. With that which makes a majority, once per
// ballot, it returns true and what to send to every voter, also to those that
// did not promise.
func (p *Proposer) OnPromise(from peer.ID, m Promise) (Accept, bool) {
	if p.phase != Preparing || m.Ballot != p.ballot || !p.count(&p.promised, from) {
		return Accept{}, false
	}
	// An own value gives way to any that was accepted, since that one may be
	// decided already; of those only the highest can be.
	if m.Accepted.Compare(p.adopted) > 0 {
		p.value, p.adopted = m.Value, m.Accepted
	}
	if !p.electorate.Majority(p.promised) {
		return Accept{}, false
	}
	p.phase = Accepting
	return Accept{Ballot: p.ballot, Value: p.value}, true
}

// OnAccepted counts an acceptance. With that which makes a majority, once, it
// returns true: [Proposer.Value] is decided. Acceptances count for a ballot
// that is lost, too: a majority decides, whatever others have promised since.
func (p *Proposer) OnAccepted(from peer.ID, m Accepted) bool {
	// Nothing was sent to be accepted before a majority had promised, except at
	// round 0, which nobody promises.
	asked := p.phase == Accepting || p.phase == Lost && (p.ballot.Round == 0 || p.electorate.Majority(p.promised))
	if !asked || m.Ballot != p.ballot || !p.count(&p.accepted, from) {
		return false
	}
	if !p.electorate.Majority(p.accepted) {
		return false
	}
	p.phase = Decided
	return true
}

// OnRefusal notes that a voter has promised a higher ballot. With the first,
// once per ballot, it returns true: the ballot is lost, there is nothing more
// to send for it, and it is the caller's to decide when to try again. Further
// ones only raise [Proposer.Seen].
func (p *Proposer) OnRefusal(from peer.ID, m Refusal) bool {
	if p.phase == Idle || p.phase == Decided {
		return false
	}
	if m.Ballot != p.ballot || m.Promised.Compare(p.ballot) < 0 || p.electorate.Votes(from) == 0 {
		return false
	}
	p.seen = max(p.seen, m.Promised.Round)
	if p.phase == Lost {
		return false
	}
	p.phase = Lost
	return true
}

// count adds a voter to those that answered, and reports whether it is a voter
// that had not.
func (p *Proposer) count(answered *[]peer.ID, from peer.ID) bool {
	if p.electorate.Votes(from) == 0 || slices.Contains(*answered, from) {
		return false
	}
	*answered = append(*answered, from)
	return true
}

// Phase returns how far the current ballot has come.
func (p *Proposer) Phase() Phase { return p.phase }

// Ballot returns the current ballot, zero before the first Start.
func (p *Proposer) Ballot() Ballot { return p.ballot }

// Value returns the value that the current ballot stands for. It is settled
// from Accepting on: while Preparing a further promise may replace it.
func (p *Proposer) Value() []byte { return p.value }

// Own reports whether [Proposer.Value] is what the current Start was given. If
// not, it was adopted from what others had accepted, and the proposer's own is
// still to be proposed, in a later slot. It is false before the first Start.
func (p *Proposer) Own() bool { return p.phase != Idle && p.adopted.IsZero() }

// Seen returns the highest round known in the slot: the next is above it.
func (p *Proposer) Seen() uint64 { return p.seen }

// Missing returns the voters, in roster order, that have not answered what the
// current phase asks: send those the [Prepare] or [Accept] of the current
// ballot again. When nothing is asked there is none.
func (p *Proposer) Missing() []peer.ID {
	var answered []peer.ID
	switch p.phase {
	case Preparing:
		answered = p.promised
	case Accepting:
		answered = p.accepted
	default:
		return nil
	}
	var missing []peer.ID
	for _, v := range p.electorate.voters {
		if !slices.Contains(answered, v) {
			missing = append(missing, v)
		}
	}
	return missing
}
