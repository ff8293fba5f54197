package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Two hosts were cloned: the firmware, or the system, says the same of their machines, and they have one name. One
// of them is cut off, with its containers. The other one must not take it for its former self: it lives, as it has
// said, and goes on in its space.
func TestClonedHostIsNoFormerSelf(t *testing.T) {
	for _, again := range []bool{false, true} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for i, p := range c.peers {
				p.cfg.Machine = uint64(i/2 + 1) // 1, 1 and 2
			}
		})
		c.found()
		cidr := prefix("10.50.0.0/24")
		for i := range c.peers {
			for range 5 {
				if r := c.ask(i, docker(cidr)); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		c.die(1)
		if again { // what it knows of the other one it must know after a start, too
			c.start(0)
			c.step(0, &ipam.Presence{Peer: c.peers[1].machine.Self()})
		}
		c.wait(time.Minute)
		for range 60 { // each hands out what it has
			for i := range 2 {
				c.ask(i, docker(cidr))
			}
		}
		c.heldOnce(cidr)
	}
}
