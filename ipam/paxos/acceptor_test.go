package paxos

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// at returns a ballot of the given round; the peer makes two of a round differ.
func at(round uint64, n byte) Ballot {
	return Ballot{Round: round, Boot: 1, Peer: id(n)}
}

func TestAcceptorPrepare(t *testing.T) {
	low, high := at(1, 1), at(2, 1)
	for _, tc := range []struct {
		name    string
		before  Acceptor
		ballot  Ballot
		answer  Answer
		after   Acceptor
		changed bool
	}{
		{
			name:   "a voter that has promised nothing promises",
			ballot: low,
			answer: Promise{Ballot: low},
			after:  Acceptor{Promised: low}, changed: true,
		},
		{
			name:   "a voter that has promised a lower ballot promises",
			before: Acceptor{Promised: low},
			ballot: high,
			answer: Promise{Ballot: high},
			after:  Acceptor{Promised: high}, changed: true,
		},
		{
			name:   "a voter that has promised a higher ballot refuses and names it",
			before: Acceptor{Promised: high},
			ballot: low,
			answer: Refusal{Ballot: low, Promised: high},
			after:  Acceptor{Promised: high},
		},
		{
			name:   "a repeated prepare is answered again and changes nothing",
			before: Acceptor{Promised: low},
			ballot: low,
			answer: Promise{Ballot: low},
			after:  Acceptor{Promised: low},
		},
		{
			name:   "the promise names the value accepted last and that ballot",
			before: Acceptor{Promised: low, Accepted: low, Value: []byte("v")},
			ballot: high,
			answer: Promise{Ballot: high, Accepted: low, Value: []byte("v")},
			after:  Acceptor{Promised: high, Accepted: low, Value: []byte("v")}, changed: true,
		},
		{
			name:   "of two ballots of a round the boot decides",
			before: Acceptor{Promised: Ballot{Round: 1, Boot: 2, Peer: id(1)}},
			ballot: Ballot{Round: 1, Boot: 1, Peer: id(2)},
			answer: Refusal{Ballot: Ballot{Round: 1, Boot: 1, Peer: id(2)}, Promised: Ballot{Round: 1, Boot: 2, Peer: id(1)}},
			after:  Acceptor{Promised: Ballot{Round: 1, Boot: 2, Peer: id(1)}},
		},
		{
			name:   "no ballot is not promised",
			answer: Refusal{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := tc.before
			answer, changed := a.Prepare(tc.ballot)
			check(t, tc.answer, answer, tc.after, a, tc.changed, changed)
		})
	}
}

func TestAcceptorAccept(t *testing.T) {
	low, high := at(1, 1), at(2, 1)
	v, w := []byte("v"), []byte("w")
	for _, tc := range []struct {
		name    string
		before  Acceptor
		ballot  Ballot
		value   []byte
		answer  Answer
		after   Acceptor
		changed bool
	}{
		{
			name:   "a voter accepts the ballot that it promised",
			before: Acceptor{Promised: low},
			ballot: low, value: v,
			answer: Accepted{Ballot: low},
			after:  Acceptor{Promised: low, Accepted: low, Value: v}, changed: true,
		},
		{
			name:   "a voter that the prepare did not reach accepts, and thereby promises",
			ballot: low, value: v,
			answer: Accepted{Ballot: low},
			after:  Acceptor{Promised: low, Accepted: low, Value: v}, changed: true,
		},
		{
			name:   "a voter that has promised a higher ballot refuses and keeps what it has",
			before: Acceptor{Promised: high, Accepted: low, Value: v},
			ballot: low, value: v,
			answer: Refusal{Ballot: low, Promised: high},
			after:  Acceptor{Promised: high, Accepted: low, Value: v},
		},
		{
			name:   "a higher ballot replaces the value",
			before: Acceptor{Promised: high, Accepted: low, Value: v},
			ballot: high, value: w,
			answer: Accepted{Ballot: high},
			after:  Acceptor{Promised: high, Accepted: high, Value: w}, changed: true,
		},
		{
			name:   "a repeated accept is answered again and changes nothing",
			before: Acceptor{Promised: low, Accepted: low, Value: v},
			ballot: low, value: []byte("v"),
			answer: Accepted{Ballot: low},
			after:  Acceptor{Promised: low, Accepted: low, Value: v},
		},
		{
			name:   "an empty value is a value",
			ballot: low, value: []byte{},
			answer: Accepted{Ballot: low},
			after:  Acceptor{Promised: low, Accepted: low, Value: []byte{}}, changed: true,
		},
		{
			name:   "a second value at a ballot is refused",
			before: Acceptor{Promised: low, Accepted: low, Value: v},
			ballot: low, value: w,
			answer: Refusal{Ballot: low, Promised: low},
			after:  Acceptor{Promised: low, Accepted: low, Value: v},
		},
		{
			name:   "nothing is accepted at no ballot",
			value:  v,
			answer: Refusal{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := tc.before
			answer, changed := a.Accept(tc.ballot, tc.value)
			check(t, tc.answer, answer, tc.after, a, tc.changed, changed)
		})
	}
}

func check(t *testing.T, wantAnswer, answer Answer, wantState, state Acceptor, wantChanged, changed bool) {
	t.Helper()
	if diff := cmp.Diff(wantAnswer, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantState, state); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if changed != wantChanged {
		t.Errorf("changed = %t, want %t", changed, wantChanged)
	}
	if err := state.Check(); err != nil {
		t.Errorf("state: %v", err)
	}
}

func TestAcceptorCheck(t *testing.T) {
	low, high := at(1, 1), at(2, 1)
	for _, tc := range []struct {
		name  string
		state Acceptor
		want  string
	}{
		{"nothing", Acceptor{}, ""},
		{"a promise", Acceptor{Promised: low}, ""},
		{"a value", Acceptor{Promised: high, Accepted: low, Value: []byte("v")}, ""},
		{"accepted above the promise", Acceptor{Promised: low, Accepted: high}, "acceptor accepted ballot 2.1.01000000 above its promise 1.1.01000000"},
		{"a value from nowhere", Acceptor{Promised: low, Value: []byte("v")}, "acceptor has a value of 1 bytes without the ballot that it was accepted at"},
	} {
		got := ""
		if err := tc.state.Check(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got error %q, want %q", tc.name, got, tc.want)
		}
	}
}
