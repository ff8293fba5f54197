package ipam_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Creating what exists is no error, and is told from creating it.
func TestPoolCreationTellsWhetherThePoolIsNew(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{})
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.81.0.0/24")})
	for i, tt := range []struct {
		cidr, name, wantName string
		created              bool
	}{
		{"10.80.0.0/24", "", "", true},
		{"10.80.0.0/24", "", "", false},
		{"10.80.0.0/24", "lab", "lab", false},
		{"10.80.0.0/24", "lab", "lab", false},
		{"::ffff:10.80.0.0/120", "lab", "lab", false}, // the same subnet in other words
		{"10.81.0.0/24", "", "", false},               // of a network
		{"fd00:80::/64", "six", "six", true},
	} {
		r := h.Call(&ipam.PoolCreation{CIDR: prefix(tt.cidr), Name: tt.name})
		if r.Err != nil || r.Created != tt.created || r.Status.Name != tt.wantName {
			t.Errorf("%d: %s: %v, created %v with the name %q", i, tt.cidr, r.Err, r.Created, r.Status.Name)
		}
	}
	wantErr(t, h.Call(&ipam.PoolCreation{CIDR: prefix("10.80.0.0/24"), Name: "plant"}).Err, ipam.ErrBadRequest, "has the name lab, not plant")
	if s := h.Machine().Status(h.Now); len(s.Pools) != 3 {
		t.Errorf("there are %d pools, want 3", len(s.Pools))
	}
}
