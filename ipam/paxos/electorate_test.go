package paxos

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/peer"
)

// electorateOf returns the electorate of the test peers 1 to n.
func electorateOf(t testing.TB, n int) Electorate {
	t.Helper()
	e, err := NewElectorate(ids(n))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ids returns the test peers 1 to n.
func ids(n int) []peer.ID {
	var out []peer.ID
	for i := range n {
		out = append(out, id(byte(i+1)))
	}
	return out
}

// subset returns the test peers whose bit is set, peer 1 being bit 0.
func subset(mask uint) []peer.ID {
	var out []peer.ID
	for i := range byte(8) {
		if mask>>i&1 == 1 {
			out = append(out, id(i+1))
		}
	}
	return out
}

// twinMajority is a dumb twin of [Electorate.Majority] for the test peers 1 to
// n: it lays out one ballot paper per vote and counts those of the mask.
func twinMajority(n int, mask uint) bool {
	papers := make([]int, 0, MaxVoters+1)
	for voter := range n {
		papers = append(papers, voter)
	}
	if len(papers)%2 == 0 {
		papers = append(papers, 0)
	}
	in := 0
	for _, voter := range papers {
		if mask>>voter&1 == 1 {
			in++
		}
	}
	return in > len(papers)-in
}

func TestMajorityIsMoreThanHalfOfTheVotes(t *testing.T) {
	for n := 1; n <= MaxVoters; n++ {
		e := electorateOf(t, n)
		for mask := range uint(1) << n {
			if got, want := e.Majority(subset(mask)), twinMajority(n, mask); got != want {
				t.Errorf("%d voters: Majority(%b) = %t, want %t", n, mask, got, want)
			}
		}
	}
}

func TestAnyTwoMajoritiesShareAVoter(t *testing.T) {
	for n := 1; n <= MaxVoters; n++ {
		e := electorateOf(t, n)
		var majorities []uint
		for mask := range uint(1) << n {
			if e.Majority(subset(mask)) {
				majorities = append(majorities, mask)
			}
		}
		if len(majorities) == 0 {
			t.Errorf("%d voters have no majority", n)
		}
		for _, a := range majorities {
			for _, b := range majorities {
				if a&b == 0 {
					t.Errorf("%d voters: majorities %b and %b are disjoint", n, a, b)
				}
			}
		}
	}
}

func TestOfTwoDisjointHalvesOneIsAMajority(t *testing.T) {
	for n := 1; n <= MaxVoters; n++ {
		e := electorateOf(t, n)
		all := uint(1)<<n - 1
		for mask := range all + 1 {
			if e.Majority(subset(mask)) == e.Majority(subset(all&^mask)) {
				t.Errorf("%d voters: %b and the rest are both a majority, or both none", n, mask)
			}
		}
	}
}

func TestTheFirstOfAnEvenNumberHasTwoVotes(t *testing.T) {
	for _, tc := range []struct {
		voters int
		want   []int
		total  int
	}{
		{1, []int{1, 0}, 1},
		{2, []int{2, 1, 0}, 3},
		{3, []int{1, 1, 1, 0}, 3},
		{4, []int{2, 1, 1, 1, 0}, 5},
		{7, []int{1, 1, 1, 1, 1, 1, 1, 0}, 7},
	} {
		e := electorateOf(t, tc.voters)
		var got []int
		for _, v := range ids(tc.voters + 1) {
			got = append(got, e.Votes(v))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%d voters: votes (-want +got):\n%s", tc.voters, diff)
		}
		if e.Total() != tc.total {
			t.Errorf("%d voters: total %d, want %d", tc.voters, e.Total(), tc.total)
		}
	}
}

func TestTwoHostsSurviveTheLossOfTheSecond(t *testing.T) {
	e := electorateOf(t, 2)
	if !e.Majority(ids(1)) {
		t.Error("the first alone is no majority")
	}
	if e.Majority(ids(2)[1:]) {
		t.Error("the second alone is a majority")
	}
}

func TestOnlyVotersCountByTheirID(t *testing.T) {
	e := electorateOf(t, 3)
	for _, tc := range []struct {
		name  string
		peers []peer.ID
		want  bool
	}{
		{"nobody", nil, false},
		{"one voter thrice", []peer.ID{id(2), id(2), id(2)}, false},
		{"one voter and strangers", []peer.ID{id(1), id(8), id(9), peer.None}, false},
		{"two voters in any order", []peer.ID{id(3), id(1)}, true},
	} {
		if got := e.Majority(tc.peers); got != tc.want {
			t.Errorf("%s: Majority = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestZeroElectorateHasNoMajority(t *testing.T) {
	var e Electorate
	if e.Majority(nil) || e.Majority(ids(1)) {
		t.Error("the zero electorate has a majority")
	}
}

func TestNewElectorateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		voters []peer.ID
		want   string
	}{
		{"no voter", nil, "has 1 to 7 voters, not 0"},
		{"too many", ids(8), "has 1 to 7 voters, not 8"},
		{"no ID", []peer.ID{id(1), peer.None}, "voter 2 of the electorate has no ID"},
		{"twice", []peer.ID{id(1), id(2), id(1)}, "is twice in the electorate"},
	} {
		_, err := NewElectorate(tc.voters)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func TestElectorateSharesNoSlice(t *testing.T) {
	given := ids(3)
	e, err := NewElectorate(given)
	if err != nil {
		t.Fatal(err)
	}
	given[0] = id(9)
	e.Voters()[1] = id(9)
	if got := e.Voters(); !slices.Equal(got, ids(3)) {
		t.Errorf("voters changed to %v", got)
	}
}
