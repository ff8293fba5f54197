package status

import (
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// Two hosts of one name are a problem of the status, and one that was evicted may have had the name before.
func TestSameNames(t *testing.T) {
	a, b := ipam.PeerStatus{Name: "host-a"}, ipam.PeerStatus{Name: "host-b"}
	if p, wrong := sameNames([]ipam.PeerStatus{a, b, {Name: "host-a", State: "evicted"}}); wrong {
		t.Errorf("of two names it says %+v", p)
	}
	if p, wrong := sameNames([]ipam.PeerStatus{b, a, b, a}); !wrong || p.Level != "degraded" || p.Text != "several hosts have the same name: host-a, host-b" {
		t.Errorf("%v, %+v", wrong, p)
	}
}
