package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// Creating what exists is no error, and is told from creating it.
func TestPoolCreationTellsWhetherThePoolIsNew(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
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

// A pool is to be removed, which is done as soon as the others agree, as it says. Who creates it meanwhile is not
// told that it is there: it goes, and is made anew.
func TestPoolCreatedWhileItsRemovalIsUndecided(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Deal = chronicle.DealNone
		}
	})
	c.run(time.Minute, c.agreed)
	create := &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")}
	if r := c.ask(0, create); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.lose = undecided
	wantErr(t, c.ask(0, &ipam.PoolRemoval{Pool: "10.60.0.0/24"}).Err, ipam.ErrNotReady, "is done as soon as they agree")
	call := c.call(0, create)
	c.wait(time.Second)
	c.lose = func(flight) bool { return false }
	c.run(time.Minute, func() bool { _, answered := c.peers[0].replies[call]; return answered })
	c.wait(10 * time.Second)
	if r := c.peers[0].replies[call]; r.Err != nil || !r.Created || c.peers[0].machine.State().PoolOf(create.CIDR) == nil {
		t.Errorf("it is told %v, created: %t, and the pools are %v", r.Err, r.Created, c.peers[0].machine.State().Pools)
	}
}

// So it is the other way round: who removes a pool whose creation is undecided is not told that there is none.
func TestPoolRemovedWhileItsCreationIsUndecided(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	create := &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")}
	c.lose = undecided
	wantErr(t, c.ask(0, create).Err, ipam.ErrNotReady, "is done as soon as they agree")
	call := c.call(0, &ipam.PoolRemoval{Pool: "10.60.0.0/24"})
	c.wait(time.Second)
	c.lose = func(flight) bool { return false }
	c.run(time.Minute, func() bool { _, answered := c.peers[0].replies[call]; return answered })
	c.wait(10 * time.Second)
	if r := c.peers[0].replies[call]; r.Err != nil || c.peers[0].machine.State().PoolOf(create.CIDR) != nil {
		t.Errorf("it is told %v, and the pools are %v", r.Err, c.peers[0].machine.State().Pools)
	}
}
