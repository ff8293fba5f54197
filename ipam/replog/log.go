package replog

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Config is what a [Log] is told of its peer.
type Config struct {
	Rand   *rand.Rand
	Spoken chronicle.Level // the highest level that this peer speaks
	Rules  rule.Set        // that are taken away, in tests
	// Apply replaces [chronicle.State.Apply], in tests; nil: it does not.
	Apply func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	// History replaces how many slots pass between two snapshots, how many are kept behind one, and how many are kept in
	// memory, in tests; 0: it does not.
	History uint64
}

// Peers is what a log asks about this peer and the others. Nothing that must be right depends on who is live.
type Peers interface {
	// Live returns the voters that can probably be reached and understand what is to be decided, in their order.
	Live() []peer.ID
	// IsCutOff reports whether no majority of the voters can be reached.
	IsCutOff() bool
	// MayFollow reports whether this peer learns slots. One that is suspended, or does not speak what the cluster uses,
	// stays where it is.
	MayFollow() bool
	// MayVote reports whether this peer votes on slots and proposes them, where it is of the roster: what it knows is
	// current, whole and understood.
	MayVote() bool

	// Founders returns how many hosts decide slot 1 together; 0: this peer does alone. The other questions are asked before
	// slot 1 is decided, and but for the first only where hosts decide it together.
	Founders() int
	// Formation returns what messages about slot 1 carry.
	Formation() wire.Formation
	// MayFound reports whether this peer votes on slot 1, asked by another one.
	MayFound(asker peer.ID, f wire.Formation) bool
	// Seat returns the ID by which slot 1 counts a peer, or [peer.None].
	Seat(id peer.ID) peer.ID
	// Seated returns the peer that was last heard of in a seat, or [peer.None].
	Seated(seat peer.ID) peer.ID
}

// Log is the replicated log of one peer. Use [New]. It is not safe for concurrent use.
type Log struct {
	cfg   Config
	out   *effect.Writer
	peers Peers
	self  peer.ID
	boot  peer.Boot
	err   error           // why this peer must not go on
	later chronicle.Level // of slots that are there and are not spoken here; 0: none that is known

	state   *chronicle.State // what the slots made
	edition uint64           // tells one content of it from all others
	slots   Slots

	digest   uint64 // of the state, as of an edition
	digestOf uint64
	own      own

	vote      vote
	attempt   *attempt
	finishes  bool // what this peer has accepted is to be decided, as others wait for that
	queued    queued
	loopback  []wire.Body // messages to itself
	pulledAt  time.Time   // when slots were last asked for
	proposals proposals
	inbox     map[peer.ID][]chronicle.Command // commands to propose, by author
}

// New returns a log without a slot. [Log.Configure] and [Log.Begin] are to follow, before anything else but what restores it.
func New(out *effect.Writer, peers Peers) *Log {
	return &Log{
		out: out, peers: peers, state: &chronicle.State{}, edition: 1, slots: NewSlots(out, 0),
		inbox: map[peer.ID][]chronicle.Command{},
	}
}

// Configure sets what the log is told of its peer.
func (l *Log) Configure(cfg Config) {
	l.cfg = cfg
	l.slots.limit, l.slots.rules = cfg.History, cfg.Rules
}

// Begin says who this peer is, and which start of it this is.
func (l *Log) Begin(self peer.ID, boot peer.Boot) { l.self, l.boot, l.own = self, boot, own{} }

func (l *Log) lacks(r rule.Set) bool { return l.cfg.Rules.Has(r) }

// State returns what the decided slots made. It is the same State for good, and only the log changes it.
func (l *Log) State() *chronicle.State { return l.state }

// Edition tells one content of the state from all others in this process. It is never 0.
func (l *Log) Edition() uint64 { return l.edition }

// Editions returns what [Log.Edition] reads.
func (l *Log) Editions() *uint64 { return &l.edition }

// Err returns why this peer must not hand out, vote or propose any more: a slot that was decided cannot be read, or cannot be
// decided. Either is a defect.
func (l *Log) Err() error { return l.err }

// Digest returns the digest of the state, made once for each slot; 0 before slot 1.
func (l *Log) Digest() uint64 {
	if l.state.Slot == 0 {
		return 0
	}
	if l.digestOf != l.edition {
		l.digest, l.digestOf = l.state.Digest(), l.edition
	}
	return l.digest
}

// Fail has this peer go on no more, because of a defect; see [Log.Err].
func (l *Log) Fail(err error) { l.err = cmp.Or(l.err, err) }

// Level returns the level that the cluster uses, as far as this peer knows.
func (l *Log) Level() chronicle.Level { return max(l.state.Level, l.later) }

// IsOutdated reports whether the cluster uses a level that this peer does not speak. It then neither learns, votes, proposes
// nor hands out (R10).
func (l *Log) IsOutdated() bool { return l.Level() > l.cfg.Spoken }

// own is this peer's entry in the roster, and what follows from that, as of an edition.
type own struct {
	at     uint64
	member *chronicle.Member
	sole   bool
}

// Member returns this peer's entry in the roster, or nil. It is looked for once in each slot, for the roster may be long.
func (l *Log) Member() *chronicle.Member { return l.ownEntry().member }

// IsSole reports whether nobody else can have a part in what the state says: this peer is alone in the roster, and nobody that
// was evicted may be back.
func (l *Log) IsSole() bool { return l.ownEntry().sole }

func (l *Log) ownEntry() *own {
	if l.own.at != l.edition {
		l.lookUpOwn()
	}
	return &l.own
}

func (l *Log) lookUpOwn() {
	l.own = own{at: l.edition, member: l.state.Member(l.self)}
	back := func(g chronicle.Gone) bool { return !g.Forgotten }
	l.own.sole = l.own.member != nil && len(l.state.Roster) == 1 && !slices.ContainsFunc(l.state.Former, back)
}

// send sends a body to another peer, or hands it to this one, in this step.
func (l *Log) send(to peer.ID, body wire.Body) {
	if to == l.self {
		l.loopback = append(l.loopback, body)
		return
	}
	l.out.Send(to, body)
}

// AtRest reports whether nothing is under way, and nothing is to be written down or sent.
func (l *Log) AtRest() bool {
	return len(l.loopback) == 0 && len(l.proposals.open) == 0 && len(l.inbox) == 0 && l.attempt == nil && !l.vote.changed
}

// IsDeciding reports whether this peer has begun to have the next slot decided.
func (l *Log) IsDeciding() bool { return l.attempt != nil }

// IsBusy reports whether this peer decides a slot, or has commands that are not settled.
func (l *Log) IsBusy() bool { return l.IsDeciding() || len(l.proposals.open) > 0 }

// Finish writes down, at the end of a step, what this peer has promised, accepted and proposed, and sends its commands to
// whom they were routed.
func (l *Log) Finish() {
	l.saveProposals()
	l.saveVote()
	l.submit()
}

// Stop ends all that this peer has under way for others, as it is to vote and propose no more.
func (l *Log) Stop() {
	l.attempt = nil
	clear(l.inbox)
}
