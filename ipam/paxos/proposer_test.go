package paxos

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/peer"
)

// self is the proposer under test: a peer that is no voter.
const self = 20

// preparing returns a proposer for that many voters that has sent its first
// prepare, for the value "own".
func preparing(t *testing.T, voters int) *Proposer {
	t.Helper()
	p, err := NewProposer(id(self), 1, electorateOf(t, voters))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start([]byte("own"), 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// accepting returns a proposer that the voters 1 to n have promised.
func accepting(t *testing.T, voters, n int) *Proposer {
	t.Helper()
	p := preparing(t, voters)
	for _, v := range ids(n) {
		p.OnPromise(v, Promise{Ballot: p.Ballot()})
	}
	if p.Phase() != Accepting {
		t.Fatalf("phase %v after %d promises of %d voters, want accepting", p.Phase(), n, voters)
	}
	return p
}

func TestNewProposerRefuses(t *testing.T) {
	e := electorateOf(t, 1)
	for _, tc := range []struct {
		name       string
		self       peer.ID
		boot       peer.Boot
		electorate Electorate
		want       string
	}{
		{"no ID", peer.None, 1, e, "needs a peer ID"},
		{"no boot", id(1), 0, e, "has boot 0"},
		{"no electorate", id(1), 1, Electorate{}, "without voters"},
	} {
		_, err := NewProposer(tc.self, tc.boot, tc.electorate)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func TestTheRoundIsAboveAnySeenInTheSlot(t *testing.T) {
	p, err := NewProposer(id(self), 4, electorateOf(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	start := func(above, want uint64) {
		t.Helper()
		m, err := p.Start([]byte("own"), above)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Prepare{Ballot{Round: want, Boot: 4, Peer: id(self)}}, m); diff != "" {
			t.Errorf("prepare (-want +got):\n%s", diff)
		}
		if p.Seen() != want || p.Ballot() != m.Ballot {
			t.Errorf("seen %d and ballot %v, want %d and %v", p.Seen(), p.Ballot(), want, m.Ballot)
		}
	}
	start(0, 1)
	start(0, 2) // above the former own
	start(7, 8) // above what the caller knows
	start(3, 9) // the caller may have forgotten
	p.OnRefusal(id(1), Refusal{Ballot: p.Ballot(), Promised: at(20, 1)})
	p.OnRefusal(id(2), Refusal{Ballot: p.Ballot(), Promised: at(30, 1)})
	p.OnRefusal(id(3), Refusal{Ballot: p.Ballot(), Promised: at(25, 1)})
	start(0, 31) // above every refusal, not only the first or last
}

func TestStartFailsWithoutARoundLeft(t *testing.T) {
	p := preparing(t, 3)
	before := *p
	if _, err := p.Start([]byte("other"), math.MaxUint64); !errors.Is(err, ErrNoRound) {
		t.Errorf("got error %v, want %v", err, ErrNoRound)
	}
	if diff := cmp.Diff(before, *p, cmp.AllowUnexported(Proposer{}, Electorate{})); diff != "" {
		t.Errorf("a failed start changed the proposer (-before +after):\n%s", diff)
	}
}

func TestProposesItsOwnOnlyIfThereIsNone(t *testing.T) {
	p := preparing(t, 3)
	if m, ok := p.OnPromise(id(1), Promise{Ballot: p.Ballot()}); ok {
		t.Fatalf("sent %v after one promise of three voters", m)
	}
	m, ok := p.OnPromise(id(3), Promise{Ballot: p.Ballot()})
	if !ok {
		t.Fatal("nothing sent after two promises of three voters")
	}
	if diff := cmp.Diff(Accept{Ballot: p.Ballot(), Value: []byte("own")}, m); diff != "" {
		t.Errorf("accept (-want +got):\n%s", diff)
	}
	if !p.Own() || p.Phase() != Accepting {
		t.Errorf("own %t in phase %v, want true, accepting", p.Own(), p.Phase())
	}
}

func TestProposesTheAcceptedValueWithTheHighestBallot(t *testing.T) {
	low := Promise{Accepted: at(1, 1), Value: []byte("low")}
	high := Promise{Accepted: at(2, 1), Value: []byte("high")}
	empty := Promise{Accepted: at(3, 1), Value: []byte{}}
	none := Promise{}
	for _, tc := range []struct {
		name     string
		promises []Promise
		want     string
	}{
		{"low first", []Promise{low, high, none}, "high"},
		{"high first", []Promise{high, none, low}, "high"},
		{"none last", []Promise{low, none, none}, "low"},
		{"none first", []Promise{none, none, low}, "low"},
		{"an empty value counts", []Promise{empty, high, low}, ""},
		{"a value without a ballot does not", []Promise{{Value: []byte("stray")}, none, none}, "own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := preparing(t, 5)
			if _, err := p.Start([]byte("own"), 9); err != nil {
				t.Fatal(err)
			}
			var sent Accept
			for i, m := range tc.promises {
				m.Ballot = p.Ballot()
				sent, _ = p.OnPromise(id(byte(i+1)), m)
			}
			if got := string(sent.Value); got != tc.want || string(p.Value()) != tc.want {
				t.Errorf("sent %q and shows %q, want %q", got, p.Value(), tc.want)
			}
			if own := tc.want == "own"; p.Own() != own {
				t.Errorf("Own() = %t, want %t", p.Own(), own)
			}
		})
	}
}

func TestAMajorityOfAnswersToOneBallotDecides(t *testing.T) {
	p := accepting(t, 5, 3)
	for i, want := range []bool{false, false, true, false, false} {
		from := id(byte(5 - i)) // also those that did not promise
		if got := p.OnAccepted(from, Accepted{p.Ballot()}); got != want {
			t.Errorf("answer %d: decided %t, want %t", i+1, got, want)
		}
	}
	if p.Phase() != Decided || string(p.Value()) != "own" {
		t.Errorf("phase %v with %q, want decided with own", p.Phase(), p.Value())
	}
	if _, err := p.Start([]byte("other"), 0); !errors.Is(err, ErrDecided) {
		t.Errorf("start after the decision: error %v, want %v", err, ErrDecided)
	}
}

func TestTheFirstOfTwoDecidesAlone(t *testing.T) {
	p := preparing(t, 2)
	if _, ok := p.OnPromise(id(2), Promise{Ballot: p.Ballot()}); ok {
		t.Error("the promise of the second alone is a majority")
	}
	if _, ok := p.OnPromise(id(1), Promise{Ballot: p.Ballot()}); !ok {
		t.Fatal("the promises of both are no majority")
	}
	if !p.OnAccepted(id(1), Accepted{p.Ballot()}) {
		t.Error("the acceptance of the first is no majority")
	}
}

func TestPromisesThatDoNotCount(t *testing.T) {
	p := preparing(t, 3)
	former := p.Ballot()
	if _, err := p.Start([]byte("own"), 0); err != nil {
		t.Fatal(err)
	}
	accepted := Promise{Accepted: at(1, 1), Value: []byte("theirs")}
	for _, tc := range []struct {
		name   string
		from   byte
		ballot Ballot
	}{
		{"of a non-voter", 4, p.Ballot()},
		{"to a former ballot", 2, former},
		{"to somebody else's ballot", 2, at(2, 3)},
		{"to a ballot of another boot", 2, Ballot{Round: 2, Boot: 2, Peer: id(self)}},
		{"to no ballot", 2, Ballot{}},
	} {
		m := accepted
		m.Ballot = tc.ballot
		for range 3 {
			if _, ok := p.OnPromise(id(tc.from), m); ok {
				t.Errorf("a promise %s counted", tc.name)
			}
		}
		if !p.Own() || len(p.Missing()) != 3 {
			t.Errorf("a promise %s left own %t and %d voters missing", tc.name, p.Own(), len(p.Missing()))
		}
	}

	for range 3 {
		if _, ok := p.OnPromise(id(1), Promise{Ballot: p.Ballot()}); ok {
			t.Error("a repeated promise counted")
		}
	}
	if len(p.promised) != 1 {
		t.Errorf("repeated promises are remembered %d times", len(p.promised))
	}
	if _, ok := p.OnPromise(id(2), Promise{Ballot: p.Ballot()}); !ok {
		t.Fatal("two promises of three voters are no majority")
	}
	late := Promise{Ballot: p.Ballot(), Accepted: at(1, 1), Value: []byte("theirs")}
	if _, ok := p.OnPromise(id(3), late); ok || !p.Own() {
		t.Error("a promise after the majority changed what is proposed")
	}
}

func TestAcceptancesThatDoNotCount(t *testing.T) {
	p := preparing(t, 3)
	for _, v := range ids(3) {
		if p.OnAccepted(v, Accepted{p.Ballot()}) {
			t.Fatal("decided before anything was sent to be accepted")
		}
	}
	former := p.Ballot()
	if _, err := p.Start([]byte("own"), 0); err != nil {
		t.Fatal(err)
	}
	for _, v := range ids(2) {
		p.OnPromise(v, Promise{Ballot: p.Ballot()})
	}
	for _, tc := range []struct {
		name   string
		from   byte
		ballot Ballot
	}{
		{"the first", 1, p.Ballot()},
		{"a repeated one", 1, p.Ballot()},
		{"of a non-voter", 4, p.Ballot()},
		{"of no peer", 0, p.Ballot()},
		{"to a former ballot", 2, former},
		{"to somebody else's ballot", 3, at(2, 3)},
	} {
		if p.OnAccepted(id(tc.from), Accepted{tc.ballot}) {
			t.Fatalf("decided by an acceptance that does not count: %s", tc.name)
		}
	}
	if !p.OnAccepted(id(3), Accepted{p.Ballot()}) {
		t.Error("two acceptances of three voters are no majority")
	}
}

func TestAHigherBallotSeenLoses(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    *Proposer
	}{
		{"while preparing", preparing(t, 5)},
		{"while accepting", accepting(t, 5, 3)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := tc.p
			if !p.OnRefusal(id(5), Refusal{Ballot: p.Ballot(), Promised: at(6, 1)}) {
				t.Error("a refusal did not lose the ballot")
			}
			if p.OnRefusal(id(5), Refusal{Ballot: p.Ballot(), Promised: at(6, 1)}) {
				t.Error("a repeated refusal lost the ballot again")
			}
			if p.Phase() != Lost || p.Seen() != 6 || p.Missing() != nil {
				t.Errorf("phase %v, seen %d, missing %v; want lost, 6, none", p.Phase(), p.Seen(), p.Missing())
			}
			for _, v := range ids(5) {
				if _, ok := p.OnPromise(v, Promise{Ballot: p.Ballot()}); ok {
					t.Error("a promise to a lost ballot made a majority")
				}
			}
			m, err := p.Start([]byte("own"), 0)
			if err != nil || m.Ballot.Round != 7 {
				t.Errorf("next ballot %v, error %v, want round 7", m.Ballot, err)
			}
		})
	}
}

func TestRefusalsThatDoNotCount(t *testing.T) {
	p := preparing(t, 3)
	former := p.Ballot()
	if _, err := p.Start([]byte("own"), 4); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		from    byte
		refusal Refusal
	}{
		{"of a non-voter", 4, Refusal{Ballot: p.Ballot(), Promised: at(9, 1)}},
		{"of a former ballot", 1, Refusal{Ballot: former, Promised: at(9, 1)}},
		{"of somebody else's ballot", 1, Refusal{Ballot: at(5, 2), Promised: at(9, 1)}},
		{"that names a lower promise", 1, Refusal{Ballot: p.Ballot(), Promised: at(4, 1)}},
	} {
		if p.OnRefusal(id(tc.from), tc.refusal) || p.Phase() != Preparing || p.Seen() != 5 {
			t.Errorf("a refusal %s: phase %v, seen %d", tc.name, p.Phase(), p.Seen())
		}
	}

	p = accepting(t, 1, 1)
	p.OnAccepted(id(1), Accepted{p.Ballot()})
	if p.OnRefusal(id(1), Refusal{Ballot: p.Ballot(), Promised: at(9, 1)}) || p.Phase() != Decided {
		t.Error("a refusal undid a decision")
	}
}

func TestAMajorityDecidesThoughAnotherVoterRefused(t *testing.T) {
	p := accepting(t, 3, 2)
	p.OnRefusal(id(3), Refusal{Ballot: p.Ballot(), Promised: at(5, 3)})
	p.OnAccepted(id(1), Accepted{p.Ballot()})
	if !p.OnAccepted(id(2), Accepted{p.Ballot()}) || p.Phase() != Decided {
		t.Errorf("phase %v after two acceptances of three voters, want decided", p.Phase())
	}
}

func TestABallotLostWhilePreparingIsNotDecided(t *testing.T) {
	p := preparing(t, 3)
	p.OnRefusal(id(3), Refusal{Ballot: p.Ballot(), Promised: at(5, 3)})
	for _, v := range ids(3) {
		if p.OnAccepted(v, Accepted{p.Ballot()}) {
			t.Fatal("decided a ballot that nothing was sent for")
		}
	}
}

func TestARefusalOfASecondValueLosesTheBallot(t *testing.T) {
	// The copy of a database may have used the ballot before us. The voter then
	// names our own ballot, and the next one is above it.
	p := accepting(t, 1, 1)
	a := Acceptor{Promised: p.Ballot(), Accepted: p.Ballot(), Value: []byte("theirs")}
	answer, _ := a.Accept(p.Ballot(), p.Value())
	if !p.OnRefusal(id(1), answer.(Refusal)) {
		t.Error("the ballot is not lost")
	}
}

func TestMissingAreTheVotersToAskAgain(t *testing.T) {
	p, err := NewProposer(id(self), 1, electorateOf(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	missing := func(when string, want ...peer.ID) {
		t.Helper()
		if diff := cmp.Diff(want, p.Missing()); diff != "" {
			t.Errorf("missing %s (-want +got):\n%s", when, diff)
		}
	}
	missing("when idle")
	if _, err := p.Start(nil, 0); err != nil {
		t.Fatal(err)
	}
	missing("at the start", id(1), id(2), id(3))
	p.OnPromise(id(2), Promise{Ballot: p.Ballot()})
	missing("after a promise", id(1), id(3))
	p.OnPromise(id(3), Promise{Ballot: p.Ballot()})
	missing("in phase 2", id(1), id(2), id(3))
	p.OnAccepted(id(1), Accepted{p.Ballot()})
	missing("after an acceptance", id(2), id(3))
	p.OnAccepted(id(3), Accepted{p.Ballot()})
	missing("when decided")
}

func TestAnIdleProposerIgnoresAnswers(t *testing.T) {
	p, err := NewProposer(id(1), 1, electorateOf(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.OnPromise(id(1), Promise{}); ok {
		t.Error("a promise counted")
	}
	if p.OnAccepted(id(1), Accepted{}) {
		t.Error("an acceptance counted")
	}
	if p.OnRefusal(id(1), Refusal{Promised: at(1, 1)}) {
		t.Error("a refusal counted")
	}
	if p.Phase() != Idle || p.Own() || !p.Ballot().IsZero() {
		t.Errorf("phase %v, own %t, ballot %v", p.Phase(), p.Own(), p.Ballot())
	}
}
