package status

import (
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// A port that cannot be opened is the first problem, whichever part of the process reports it.
func TestClosedNetworkComesFirst(t *testing.T) {
	problems := []ipam.Problem{{Code: "joining", Level: "failed"}, {Code: "seed-unreachable", Level: "degraded"}, {Code: "network-closed", Level: "degraded"}, {Code: "last", Level: "degraded"}}
	for state, level := range map[ipam.State]string{ipam.Joining: "failed", ipam.CutOff: "degraded"} {
		codes := ""
		got := closedFirst(problems, state)
		for _, p := range got {
			codes += p.Code + " "
		}
		if codes != "network-closed joining seed-unreachable last " || got[0].Level != level {
			t.Errorf("%v: %s, level %s", state, codes, got[0].Level)
		}
	}
	if problems[2].Code != "network-closed" || problems[2].Level != "degraded" {
		t.Error("the list that others read has changed")
	}
	if got := closedFirst(problems[:2], ipam.Joining); len(got) != 2 {
		t.Errorf("%v", got)
	}
}
