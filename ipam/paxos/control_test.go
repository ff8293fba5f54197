package paxos

import (
	"errors"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

// searched is how many schedules a control may take to find its breach. Most
// take fewer than a hundred.
const searched = 50_000

// TestWithoutARuleTwoValuesAreDecided takes one rule away at a time and
// asserts that the simulation notices. A rule that could be missing unnoticed
// would either not be needed or not be tested.
func TestWithoutARuleTwoValuesAreDecided(t *testing.T) {
	three := size{voters: 3, others: 1, steps: 150}
	for _, tc := range []struct {
		name    string
		size    size
		rules   rules
		weather func(*weather)
	}{
		{"a promise is not on disk", three, rules{write: func(_ int, disk *Acceptor, memory Acceptor) {
			*disk = Acceptor{Promised: memory.Accepted, Accepted: memory.Accepted, Value: memory.Value}
		}}, nil},
		{"an acceptance is not on disk", three, rules{write: func(_ int, disk *Acceptor, memory Acceptor) {
			*disk = Acceptor{Promised: memory.Promised}
		}}, nil},
		{"a repeated answer does not wait for the write", three, rules{repeatEarly: true}, unwritten},
		{"accepts below its promise", three, rules{accept: acceptBelow}, nil},

		{"a majority of three is one", three, rules{electorate: smaller}, nil},
		{"a majority of five is two", size{voters: 5, steps: 250}, rules{electorate: smaller}, nil},
		{"half of two is a majority", size{voters: 2, steps: 100}, rules{electorate: smaller}, nil},
		{"peers differ over the electorate", size{voters: 5, steps: 250}, rules{electorate: func(node int, e Electorate) Electorate {
			if node < 2 {
				return Electorate{voters: e.voters[:3], total: 3}
			}
			return Electorate{voters: e.voters[2:], total: 3}
		}}, nil},
		{"a non-voter counts", size{voters: 3, others: 2, steps: 150}, rules{electorate: func(_ int, e Electorate) Electorate {
			return Electorate{voters: ids(5), total: e.total}
		}}, nil},
		{"two incarnations count as two acceptors", three, rules{
			sender:     incarnation,
			electorate: incarnations,
		}, restarts},

		{"anybody uses round 0", three, rules{owner: func(node int) peer.ID { return id(byte(node + 1)) }}, rivals},
		{"round 0 is used again", three, rules{again: true}, restarts},
		{"the owner forgets that it used round 0", three, rules{write: func(node int, disk *Acceptor, memory Acceptor) {
			*disk = memory
			if disk.Accepted != (Ballot{Peer: id(byte(node + 1))}) {
				return
			}
			disk.Accepted, disk.Value = Ballot{}, nil
			if disk.Promised.Round == 0 {
				disk.Promised = Ballot{}
			}
		}}, restarts},
		{"an accept at round 0 leaves before the write", three, rules{early: true}, unwritten},

		{"proposes its own although there is one", three, rules{heard: deaf}, nil},
		{"proposes the accepted value heard first", three, rules{heard: firstHeard}, nil},
		{"the boot is not in the ballot and the round is forgotten", three, rules{
			boot: func(peer.Boot) peer.Boot { return 1 },
		}, restarts},
		{"a promise to a former ballot counts", three, rules{heard: func(p *Proposer, a Answer) Answer {
			if m, ok := a.(Promise); ok {
				m.Ballot = p.Ballot()
				return m
			}
			return a
		}}, nil},
		{"an acceptance at a former ballot counts", three, rules{heard: func(p *Proposer, a Answer) Answer {
			if _, ok := a.(Accepted); ok {
				return Accepted{p.Ballot()}
			}
			return a
		}}, rivals},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.rules.unchecked = true
			tc.rules.weather = func(w *weather) {
				w.silent = 100 // nobody is told, so that all go on deciding
				if tc.weather != nil {
					tc.weather(w)
				}
			}
			for seed := range uint64(searched) {
				if _, err := tc.size.run(seed, tc.rules, nil); errors.Is(err, errTwoValues) {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("no breach in %d schedules", searched)
		})
	}
}

// TestWithoutTheDoubleVoteOnlyProgressSuffers shows what the second vote of
// the first voter is for: availability alone.
func TestWithoutTheDoubleVoteOnlyProgressSuffers(t *testing.T) {
	single := rules{electorate: func(_ int, e Electorate) Electorate {
		return Electorate{voters: e.voters, total: len(e.voters)}
	}}
	for _, s := range []size{
		{voters: 2, steps: 100, schedules: 5_000},
		{voters: 4, steps: 150, schedules: 5_000},
	} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			stuck := 0
			for seed := range uint64(s.schedules) {
				_, err := s.run(seed, single, nil)
				switch {
				case errors.Is(err, errNoProgress):
					stuck++
				case err != nil:
					t.Fatalf("seed %d: %v\n%s", seed, err, s.explain(seed, single))
				}
			}
			t.Logf("%d of %d schedules got stuck", stuck, s.schedules)
			if stuck == 0 {
				t.Errorf("none of %d schedules got stuck", s.schedules)
			}
		})
	}
}

// TestWithoutARuleASmallWorldBreaks does the same in the small worlds that are
// explored to their end, which need no luck: no order of events is too rare.
func TestWithoutARuleASmallWorldBreaks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		direct int
		rules  rules
	}{
		{"a majority of three is one", 0, rules{electorate: smaller}},
		{"accepts below its promise", 0, rules{accept: acceptBelow}},
		{"accepting does not promise", 0, rules{accept: acceptWithoutPromise}},
		{"proposes its own although there is one", 0, rules{heard: deaf}},
		{"proposes its own although there is one of round 0", 1, rules{heard: deaf}},
		{"proposes the accepted value heard first", 0, rules{heard: firstHeard}},
		{"two peers use round 0", 2, rules{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := model{voters: 3, direct: tc.direct, rules: tc.rules}
			err := m.explore(t, 3)
			if !errors.Is(err, errTwoValues) {
				t.Errorf("got error %v after %d worlds, want %v", err, len(m.seen), errTwoValues)
			}
			t.Logf("%v, in world %d", err, len(m.seen))
		})
	}
}

// acceptBelow accepts whatever it is asked to.
func acceptBelow(a *Acceptor, b Ballot, v []byte) (Answer, bool) {
	*a = Acceptor{Promised: a.Promised, Accepted: b, Value: v}
	return Accepted{b}, true
}

// acceptWithoutPromise goes on to accept anything above what it has promised,
// though it may have accepted above that.
func acceptWithoutPromise(a *Acceptor, b Ballot, v []byte) (Answer, bool) {
	promised := a.Promised
	answer, changed := a.Accept(b, v)
	a.Promised = promised
	return answer, changed
}

// deaf does not hear what was accepted before.
func deaf(_ *Proposer, a Answer) Answer {
	if m, ok := a.(Promise); ok {
		return Promise{Ballot: m.Ballot}
	}
	return a
}

// firstHeard hears of one accepted value only, not of a higher one.
func firstHeard(p *Proposer, a Answer) Answer {
	if m, ok := a.(Promise); ok && !p.adopted.IsZero() {
		return Promise{Ballot: m.Ballot}
	}
	return a
}

// smaller makes a majority out of one vote less than it takes.
func smaller(_ int, e Electorate) Electorate {
	e.total -= 2
	return e
}

// maxIncarnations is more boots than a voter has in a schedule that counts.
const maxIncarnations = 12

// incarnation tells a restarted acceptor from its former self.
func incarnation(id peer.ID, boot peer.Boot) peer.ID {
	id[1] = byte(boot)
	return id
}

// incarnations makes each start of a voter a voter, and needs as many of them
// as it takes voters.
func incarnations(_ int, e Electorate) Electorate {
	counted := Electorate{total: e.total}
	for _, v := range e.voters {
		for boot := range peer.Boot(maxIncarnations) {
			counted.voters = append(counted.voters, incarnation(v, boot+1))
		}
	}
	return counted
}

// The weathers in which what a control breaks is likely to matter. The others
// find their breach in any.

// unwritten has many answers wait for a write that does not come.
func unwritten(w *weather) { w.slow, w.crash, w.repeat = 80, 8, 20 }

// rivals has several values pushed at a time, each to some of the voters.
func rivals(w *weather) {
	w.start, w.fresh, w.partial, w.inOrder = 8, 100, 50, 0
	w.crash, w.loss, w.cut = 0, 0, 0
}

// restarts has peers forget what is not on disk, and be asked again.
func restarts(w *weather) {
	w.crash, w.forget, w.fresh, w.partial = 8, 80, 100, 50
	w.repeat, w.resend, w.loss, w.cut = 20, 3, 0, 0
}
