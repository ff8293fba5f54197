package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// What an operator was told is done as soon as a majority is there again is done then, also where
// the process ends before.
func TestOrdersOutliveTheProcess(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	a := "10.50.0.250"
	if r := c.ask(2, exclude(a, a)); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.die(2)
	for _, q := range []ipam.Request{
		unreserve(a, a, chronicle.KindExcluded), &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")}, &ipam.DrainRequest{},
	} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrNotReady, "is done as soon as they agree")
	}
	c.start(2)
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if s := c.status(2); s.State != ipam.Leaving || len(s.Pools) != 2 || s.Pending > 0 {
		t.Errorf("it is %s, and there are %d pools", s.State, len(s.Pools))
	}
	if err := c.ip(0, prefix("10.50.0.0/24"), address(a)); err != nil {
		t.Error(err)
	}
	c.start(2)
	if n := c.status(2).Pending; n > 0 {
		t.Errorf("%d commands are wanted once more", n)
	}
}
