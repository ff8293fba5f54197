package report_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/report"
)

// A picture in, what people see out.
func Example() {
	self, other := peer.ID{1}, peer.ID{2}
	p := report.Picture{
		Self: self, Name: "host-a", Standing: peer.CutOff, Pending: 1,
		State: &chronicle.State{Slot: 7, Roster: []chronicle.Member{{Founder: chronicle.Founder{ID: other}}, {Founder: chronicle.Founder{ID: self}}}},
		Peers: map[peer.ID]report.Peer{self: {Name: "host-a", Live: true}, other: {Name: "host-b"}},
		Own:   report.Own{CutOff: true},
	}
	s := p.Status()
	fmt.Println(s.State, s.Verdict)
	for _, problem := range s.Problems {
		fmt.Printf("%s: %s\n", problem.Code, problem.Text)
	}
	// Output:
	// cut-off degraded
	// cut-off: this host does not reach the other one, which has the deciding vote of the two (away: host-b): it still hands out and frees addresses in its own ranges, but new pools and ranges must wait; 1 decision that was requested here waits, too
}
