package paxos

import (
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

// id returns the n-th test peer, counted from 1.
func id(n byte) peer.ID { return peer.ID{n} }

func TestBallotsCompareByRoundThenBootThenPeer(t *testing.T) {
	ascending := []Ballot{
		{},
		{Round: 1, Boot: 1, Peer: id(1)},
		{Round: 1, Boot: 1, Peer: id(2)},
		{Round: 1, Boot: 2, Peer: id(1)},
		{Round: 1, Boot: 2, Peer: id(2)},
		{Round: 2, Boot: 1, Peer: id(1)},
		{Round: 2, Boot: 1, Peer: peer.ID{1, 0, 0, 1}},
		{Round: 1 << 63, Boot: 1, Peer: id(1)},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("(%v).Compare(%v) = %d, want %d", a, b, got, want)
			}
		}
		if got, want := a.IsZero(), i == 0; got != want {
			t.Errorf("(%v).IsZero() = %t, want %t", a, got, want)
		}
	}
}

func TestNoTwoAttemptsShareABallot(t *testing.T) {
	e := electorateOf(t, 3)
	var used []Ballot
	for n := byte(1); n <= 3; n++ {
		for boot := peer.Boot(1); boot <= 3; boot++ {
			p, err := NewProposer(id(n), boot, e)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				m, err := p.Start(nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(used, m.Ballot) {
					t.Errorf("ballot %v used twice", m.Ballot)
				}
				used = append(used, m.Ballot)
			}
		}
	}
}

func TestBallotString(t *testing.T) {
	for _, tc := range []struct {
		ballot Ballot
		want   string
	}{
		{Ballot{}, "none"},
		{Ballot{Round: 3, Boot: 2, Peer: peer.ID{0x0a, 0x1b, 0x2c, 0x3d, 0x4e}}, "3.2.0a1b2c3d"},
	} {
		if got := tc.ballot.String(); got != tc.want {
			t.Errorf("String() = %q, want %q", got, tc.want)
		}
	}
}
