package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// atRest returns three peers of which nobody has wanted anything for a while.
func atRest(t *testing.T) (*lockstep, netip.Prefix) {
	t.Helper()
	c, cidr := lab(t)
	c.wait(5 * time.Minute)
	return c, cidr
}

// A host with which nobody does anything is woken less often, until something is done.
func TestWokenLessOftenAtRest(t *testing.T) {
	c, cidr := atRest(t)
	awaits := func() time.Duration { return c.peers[0].wake.Sub(c.now) }
	c.step(0, ipam.Tick{})
	if got := awaits(); got <= time.Second || got > 5*time.Second {
		t.Errorf("at rest it is to be woken after %v", got)
	}
	if err := c.ask(0, docker(cidr)).Err; err != nil {
		t.Fatal(err)
	}
	c.step(0, ipam.Tick{})
	if got := awaits(); got > time.Second {
		t.Errorf("after a call it is to be woken after %v", got)
	}
}

// That it is woken less often lets no host that was frozen go on as if nothing had been: it asks the others as
// soon as it would otherwise.
func TestFrozenAtRest(t *testing.T) {
	for _, tt := range []struct {
		frozen time.Duration
		want   ipam.State
	}{
		{4 * time.Second, ipam.Ready}, // as long as it is not to be woken
		{5 * time.Second, ipam.Ready},
		{6 * time.Second, ipam.Checking},
		{7 * time.Second, ipam.Checking},
		{time.Hour, ipam.Checking},
	} {
		c, _ := atRest(t)
		c.step(0, ipam.Tick{})
		c.now = c.now.Add(tt.frozen)
		c.step(0, ipam.Tick{})
		if got := c.status(0).State; got != tt.want {
			t.Errorf("frozen for %v it is %v, want %v", tt.frozen, got, tt.want)
		}
	}
}
