package bootcheck

import (
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
)

// Check is the boot check, with the [Watch] that tells when it is to begin anew. Use [New].
type Check struct {
	Watch
	out      *effect.Writer
	rules    rule.Set // that are taken away, in tests
	running  bool
	until    time.Time
	question uint64             // tells answers to this check from others, which may lie in the sockets of a suspended host
	knows    map[peer.ID]uint64 // up to which slot each peer that has answered may know what was decided; this peer counts, too
	alone    bool               // the last one ended without a majority, and none has spoken to this peer since
}

// New returns a check that does not run.
func New(out *effect.Writer) *Check { return &Check{Watch: Watch{out: out}, out: out} }

// Wait is how long a peer waits for a majority. What queued in its socket while it started is answered within callTime,
// and must not fail just before the wait ends (R12).
func Wait(callTime time.Duration) time.Duration { return max(callTime-2*time.Second, callTime/2) }

// Configure takes rules away, in tests.
func (c *Check) Configure(without rule.Set) { c.rules = without }

// Begin begins a check. What was answered to an earlier one says nothing of the time since (R16). question is to be
// another one each time.
func (c *Check) Begin(self peer.ID, wait time.Duration, question uint64) {
	*c = Check{
		Watch: c.Watch, out: c.out, rules: c.rules, alone: c.alone, running: true, until: c.out.Now().Add(wait),
		question: question, knows: map[peer.ID]uint64{self: 0},
	}
}

// Stop ends the check without a result.
func (c *Check) Stop() { c.running, c.question, c.knows = false, 0, nil }

// IsRunning reports whether the check is under way.
func (c *Check) IsRunning() bool { return c.running }

// IsAlone reports whether this peer went on without a majority, and has not met one since.
func (c *Check) IsAlone() bool { return c.alone }

// Question returns what an answer is to repeat, 0 if no check is under way.
func (c *Check) Question() uint64 { return c.question }

// HasAnswered reports whether a peer has answered the check that is under way.
func (c *Check) HasAnswered(id peer.ID) bool {
	_, answered := c.knows[id]
	return answered
}

// Answered returns how many other peers have answered the check that is under way.
func (c *Check) Answered() int { return len(c.knows) - 1 }

// Take counts an answer. undecided says that its author has accepted a change of the roster in the slot behind the last
// one that it knows: it counts as one that knows that slot (R15).
func (c *Check) Take(id peer.ID, question, slot uint64, undecided bool) {
	if !c.running || question != c.question && !c.rules.Has(rule.Present) {
		return
	}
	c.knows[id] = max(c.knows[id], behind(slot, undecided))
}

func behind(slot uint64, undecided bool) uint64 {
	if undecided {
		return slot + 1
	}
	return slot
}

// answers returns which peers have answered, with this peer, and those of them that know of nothing that this peer does
// not know.
func (c *Check) answers(v cluster.View, undecided bool) (all, level []peer.ID) {
	// A peer that cannot be reached any more may have heard since of what was decided since: one that is gone is not asked
	// before this peer is forgotten (R16).
	maps.DeleteFunc(c.knows, func(id peer.ID, knows uint64) bool {
		return knows <= v.State.Slot && !v.Live(id) && !c.rules.Has(rule.Present)
	})
	c.knows[v.Self] = behind(v.State.Slot, undecided)
	all = slices.SortedFunc(maps.Keys(c.knows), peer.ID.Compare)
	level = slices.DeleteFunc(slices.Clone(all), func(id peer.ID) bool { return c.knows[id] > v.State.Slot && !c.rules.Has(rule.Behind) })
	return all, level
}

// Completes reports whether this peer is to see to it that the next slot is decided, though it is being checked: a
// change of the roster has been accepted there, and until it is known what was decided nobody can tell whether this
// database is current (R15). A majority has answered, so it is no copy, and what it has promised is on its disk.
func (c *Check) Completes(v cluster.View, undecided bool) bool {
	if !c.running {
		return false
	}
	all, level := c.answers(v, undecided)
	return v.Majority(all) && len(level) < len(all) && !v.Behind()
}

// Look ends the check if it can, and reports whether it did. An outdated peer does not speak what the others know, so
// it need not learn that. mayAlone lets it end without a majority, when the wait is over.
func (c *Check) Look(v cluster.View, undecided, outdated, mayAlone bool) (ends bool) {
	all, level := c.answers(v, undecided)
	switch over := !v.Now.Before(c.until); {
	case v.Majority(all) && outdated:
		// What is its own it cannot learn, and a start that speaks what they do asks again.
	case v.Majority(all) && len(level) < len(all) && (!over || !v.CutOff() && v.Behind()):
		return false // what they know comes first, as long as they are there to tell it (R13)
	case v.Majority(level):
	case over && mayAlone:
		c.alone = true
		*c.out.Note() = effect.Note{Kind: effect.NoteBootedAlone}
	default:
		return false
	}
	c.Stop()
	return true
}

// MeetMajority ends that this peer is alone, once a majority of its cluster has spoken to this start of it: what was
// given up meanwhile it learns from them. It reports whether it did.
func (c *Check) MeetMajority(v cluster.View) bool {
	if !c.alone {
		return false
	}
	spoken := slices.DeleteFunc(v.LiveVoters(), func(id peer.ID) bool {
		o := v.Of(id)
		return id != v.Self && (o.Heard.IsZero() || o.Cluster != v.State.Cluster)
	})
	if !v.Majority(spoken) || v.Behind() {
		return false
	}
	c.alone = false
	return true
}
