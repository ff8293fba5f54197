package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A peer that has started again knows what the others have of each pool, and they what
// it has, as before.
func TestToldAgainAfterAStart(t *testing.T) {
	c, _ := lab(t)
	cidr := prefix("10.50.0.0/24")
	for i, n := range []int{1, 3, 5} {
		for range n {
			if err := c.ask(i, docker(cidr)).Err; err != nil {
				t.Fatal(err)
			}
		}
	}
	shares := func(i int) (told map[string]ipam.ShareStatus) {
		told = map[string]ipam.ShareStatus{}
		for _, p := range c.status(i).Pools {
			for _, s := range p.Shares {
				if p.Pool == cidr && s.Told {
					told[s.Owner] = s
				}
			}
		}
		return told
	}
	all := func() bool {
		for i := range c.peers {
			if len(shares(i)) != 3 {
				return false
			}
		}
		return true
	}
	c.run(time.Minute, all)
	for i := range c.peers {
		c.start(i)
		c.wait(30 * time.Second)
		for j := range c.peers {
			if got := shares(j); len(got) != 3 {
				t.Errorf("host-%d has started again, and host-%d was told by %d of 3", i, j, len(got))
			}
		}
	}
}

// Of what an operator asks of a host that is cut off only a part may be under way: what lies in
// others' space is to be had of them, and a pool is named once it is made. Who is told that this
// is done later takes it for all.
func TestOnlyAPartIsUnderWay(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.die(2)
	for i := range 2 {
		c.step(2, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	for _, q := range []ipam.Request{exclude("10.50.0.1", "10.50.0.254"), &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24"), Name: "lab"}} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrUnreachable, "a part of what you asked for is done as soon as they agree", "ask again for the rest")
	}
	for _, q := range []ipam.Request{exclude("10.50.0.240", "10.50.0.254"), &ipam.PoolCreation{CIDR: prefix("10.70.0.0/24")}} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrUnreachable, "; what you asked for is done as soon as they agree")
	}
}
