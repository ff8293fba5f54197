package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

func TestElsewhere(t *testing.T) {
	said := map[string]directory.Node{}
	e := &elsewhere{list: func() (list []directory.Item) {
		for id, n := range said {
			value, err := json.Marshal(n)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, directory.Item{Value: value, Owner: id})
		}
		return list
	}}
	st := ipam.Status{Self: ipam.PeerStatus{ID: "aa"}, Peers: []ipam.PeerStatus{{ID: "aa"}, {ID: "bb", Reachable: true}, {ID: "cc"}}}
	conflict := []string{"10.50.0.2 is used twice"}
	for id, name := range map[string]string{"aa": "host-a", "bb": "host-b", "cc": "host-c", "dd": "host-d"} {
		said[id] = directory.Node{Name: name, Failed: conflict}
	}
	now := time.Unix(1_800_000_000, 0)
	shown := func(after time.Duration) []ipam.Problem {
		now = now.Add(after)
		out := e.complete(st, now)
		for _, p := range out.Peers {
			if want := p.ID == "bb" && len(out.Problems) > 0; p.Failed != want {
				t.Errorf("peer %s: failed is %v", p.ID, p.Failed)
			}
		}
		if st.Peers[1].Failed {
			t.Error("the status of others that read the same snapshot was changed")
		}
		return out.Problems
	}
	if got := shown(0); len(got) > 0 {
		t.Errorf("a host that starts is shown: %v", got)
	}
	got := shown(elsewhereAfter)
	if len(got) != 1 || got[0].Text != "on host-b: 10.50.0.2 is used twice" || got[0].Level != "degraded" {
		t.Errorf("got %+v, want host-b alone: this host shows its own, and host-c and host-d cannot be reached", got)
	}
	said["bb"] = directory.Node{Name: "host-b"}
	if got := shown(elsewhereEvery); len(got) > 0 {
		t.Errorf("it is mended: %v", got)
	}
	said["bb"] = directory.Node{Name: "host-b", Failed: conflict}
	if got := shown(elsewhereEvery); len(got) > 0 {
		t.Errorf("it has just begun again: %v", got)
	}
	if got := (&elsewhere{}).complete(st, now); got.Problems != nil {
		t.Errorf("without a directory: %v", got)
	}
}
