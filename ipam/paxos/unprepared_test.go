package paxos

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/peer"
)

// proposerOf returns an idle proposer of a peer, for that many voters.
func proposerOf(t *testing.T, n byte, boot peer.Boot, voters int) *Proposer {
	t.Helper()
	p, err := NewProposer(id(n), boot, electorateOf(t, voters))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unprepared returns a proposer of the first of that many voters that has used
// round 0, and its acceptor.
func unprepared(t *testing.T, voters int) (*Proposer, *Acceptor) {
	t.Helper()
	p, a := proposerOf(t, 1, 4, voters), &Acceptor{}
	if _, ok := p.StartUnprepared(id(1), []byte("own"), a); !ok {
		t.Fatal("round 0 cannot be used")
	}
	return p, a
}

func TestRoundZeroNeedsNoPromise(t *testing.T) {
	p, voter := proposerOf(t, 1, 4, 3), &Acceptor{}
	m, ok := p.StartUnprepared(id(1), []byte("own"), voter)
	if !ok {
		t.Fatal("round 0 cannot be used")
	}
	zero := Ballot{Peer: id(1)}
	if diff := cmp.Diff(Accept{Ballot: zero, Value: []byte("own")}, m); diff != "" {
		t.Errorf("accept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Acceptor{Promised: zero, Accepted: zero, Value: []byte("own")}, *voter); diff != "" {
		t.Errorf("own acceptor (-want +got):\n%s", diff)
	}
	if p.Phase() != Accepting || p.Ballot() != zero || !p.Own() || string(p.Value()) != "own" {
		t.Errorf("phase %v at %v with %q, own %t", p.Phase(), p.Ballot(), p.Value(), p.Own())
	}
	if diff := cmp.Diff(ids(3), p.Missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}

	// Its own acceptor is asked as any other, and says again what it did.
	if answer, changed := voter.Accept(m.Ballot, m.Value); answer != (Accepted{zero}) || changed {
		t.Errorf("own acceptor answers %v, changed %t", answer, changed)
	}
	if p.OnAccepted(id(1), Accepted{zero}) {
		t.Error("decided by one of three")
	}
	if !p.OnAccepted(id(3), Accepted{zero}) || p.Phase() != Decided {
		t.Errorf("phase %v after two acceptances of three voters", p.Phase())
	}
}

func TestRoundZeroIsForItsOwnerAndOnce(t *testing.T) {
	fresh := proposerOf(t, 1, 4, 3)
	used, _ := unprepared(t, 3)
	started := proposerOf(t, 1, 4, 3)
	if _, err := started.Start([]byte("own"), 0); err != nil {
		t.Fatal(err)
	}
	zero := Ballot{Peer: id(1)}
	for _, tc := range []struct {
		name     string
		proposer *Proposer
		owner    peer.ID
		voter    Acceptor
	}{
		{"another owns it", fresh, id(2), Acceptor{}},
		{"nobody owns it", fresh, peer.None, Acceptor{}},
		{"its voter has promised", fresh, id(1), Acceptor{Promised: at(1, 2)}},
		{"its voter has accepted", fresh, id(1), Acceptor{Promised: at(1, 2), Accepted: at(1, 2), Value: []byte("v")}},
		{"its voter has used it before a restart", fresh, id(1), Acceptor{Promised: zero, Accepted: zero, Value: []byte("v")}},
		{"it was used", used, id(1), Acceptor{}},
		{"a later round was begun", started, id(1), Acceptor{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, voter := tc.proposer, tc.voter
			before := *p
			if m, ok := p.StartUnprepared(tc.owner, []byte("other"), &voter); ok {
				t.Errorf("sends %v", m)
			}
			if diff := cmp.Diff(before, *p, cmp.AllowUnexported(Proposer{}, Electorate{})); diff != "" {
				t.Errorf("the proposer changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(tc.voter, voter); diff != "" {
				t.Errorf("the acceptor changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAfterRoundZeroComesRoundOne(t *testing.T) {
	p, voter := unprepared(t, 3)
	if _, ok := p.StartUnprepared(id(1), []byte("own"), &Acceptor{}); ok {
		t.Error("round 0 is used again")
	}
	m, err := p.Start([]byte("other"), voter.Promised.Round)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Prepare{Ballot{Round: 1, Boot: 4, Peer: id(1)}}, m); diff != "" {
		t.Errorf("prepare (-want +got):\n%s", diff)
	}
	// Its own acceptor holds it to the value that it has sent.
	answer, _ := voter.Prepare(m.Ballot)
	p.OnPromise(id(1), answer.(Promise))
	accept, ok := p.OnPromise(id(2), Promise{Ballot: m.Ballot})
	if !ok || string(accept.Value) != "own" || p.Own() {
		t.Errorf("sends %q (%t), own %t; want the value of round 0", accept.Value, ok, p.Own())
	}
}

func TestALostRoundZeroIsFollowedByAHigherOne(t *testing.T) {
	p, _ := unprepared(t, 3)
	if !p.OnRefusal(id(2), Refusal{Ballot: p.Ballot(), Promised: at(3, 2)}) || p.Phase() != Lost {
		t.Errorf("phase %v after a refusal, want lost", p.Phase())
	}
	m, err := p.Start([]byte("own"), 0)
	if err != nil || m.Ballot.Round != 4 {
		t.Errorf("next ballot %v, error %v, want round 4", m.Ballot, err)
	}
}

func TestALostRoundZeroMayBeDecidedYet(t *testing.T) {
	p, _ := unprepared(t, 3)
	p.OnRefusal(id(2), Refusal{Ballot: p.Ballot(), Promised: at(3, 2)})
	p.OnAccepted(id(1), Accepted{p.Ballot()})
	if !p.OnAccepted(id(3), Accepted{p.Ballot()}) || p.Phase() != Decided {
		t.Errorf("phase %v after two acceptances of three voters, want decided", p.Phase())
	}
}

func TestAValueOfRoundZeroIsFound(t *testing.T) {
	owner, _ := unprepared(t, 3)
	var voter Acceptor
	voter.Accept(owner.Ballot(), owner.Value())

	p := proposerOf(t, 2, 1, 3)
	m, err := p.Start([]byte("other"), 0)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := voter.Prepare(m.Ballot)
	p.OnPromise(id(3), answer.(Promise))
	if p.OnPromise(id(2), Promise{Ballot: m.Ballot}); p.Own() || string(p.Value()) != "own" {
		t.Errorf("proposes %q, want the value of round 0", p.Value())
	}
	if answer, _ := voter.Accept(owner.Ballot(), owner.Value()); answer != (Refusal{Ballot: owner.Ballot(), Promised: m.Ballot}) {
		t.Errorf("a voter that has promised round 1 answers round 0 with %v", answer)
	}
}

// TestASecondValueOfRoundZeroIsRefused is for a database that was put back: its
// boot may be another, and its acceptor forgot.
func TestASecondValueOfRoundZeroIsRefused(t *testing.T) {
	first, _ := unprepared(t, 3)
	var voter Acceptor
	voter.Accept(first.Ballot(), first.Value())

	again := proposerOf(t, 1, 9, 3)
	m, ok := again.StartUnprepared(id(1), []byte("other"), &Acceptor{})
	if !ok {
		t.Fatal("round 0 cannot be used")
	}
	answer, changed := voter.Accept(m.Ballot, m.Value)
	refusal, refused := answer.(Refusal)
	if !refused || changed {
		t.Fatalf("a second value is answered with %v, changed %t", answer, changed)
	}
	if !again.OnRefusal(id(3), refusal) {
		t.Error("the ballot is not lost")
	}
}
