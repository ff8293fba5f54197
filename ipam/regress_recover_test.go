package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
)

// As in TestRecoveredKeepsWhatItAccepted, but both hosts open a block in one slot, and little is left: which
// of the blocks the other has depends on which the survivor has got.
func TestRecoveredKeepsWhatItAcceptedTogether(t *testing.T) {
	for i := range 12 {
		size, limit := 24+i%4, addr.Count(2+i/4*20)
		t.Run(fmt.Sprint(size, "-", limit), func(t *testing.T) {
			c := newLockstepWith(t, 3, func(c *lockstep) {
				for _, p := range c.peers {
					p.cfg.Deal, p.cfg.Chunk = chronicle.DealNone, 8
				}
			})
			c.run(time.Minute, c.agreed)
			cidr := prefix(fmt.Sprintf("10.50.0.0/%d", size))
			order := c.order()
			proposes, survives, opens := order[0], order[1], order[2]
			for _, i := range order {
				if r := c.ask(i, creation(cidr)); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			c.wait(time.Minute)
			for range 200 {
				// A slot runs meanwhile, so that what both ask for is in the next one.
				was := c.peers[opens].machine.State().Slot
				c.call(proposes, &ipam.PoolCreation{CIDR: prefix(fmt.Sprintf("10.60.%d.0/24", was%250))})
				for range 4 {
					c.call(opens, docker(cidr))
					c.call(survives, docker(cidr))
				}
				c.lose = func(f flight) bool {
					return f.to == survives && f.frame.Slot > was+1
				}
				c.wait(20 * time.Millisecond)
				both := c.peers[survives].machine.State().Number(c.peers[survives].machine.Self()) < c.peers[opens].machine.State().Number(c.peers[survives].machine.Self())
				if c.peers[survives].machine.State().Slot < c.peers[opens].machine.State().Slot && both && c.free(opens, cidr) <= limit {
					break
				}
				c.lose = func(flight) bool { return false }
				c.wait(3 * time.Second)
			}
			if lag := c.peers[opens].machine.State().Slot - c.peers[survives].machine.State().Slot; lag != 1 {
				return // the others went on without it, which nobody can know
			}
			c.lose = without(opens, proposes, survives)
			_ = c.full(opens, cidr)
			c.lose = func(flight) bool { return false }
			c.die(opens, proposes)
			c.wait(20 * time.Second)
			if r := c.ask(survives, &ipam.RecoverRequest{}); r.Err != nil {
				t.Fatal(r.Err)
			}
			_ = c.full(survives, cidr)
			c.heldOnce(cidr)
		})
	}
}

// free returns how much of a pool is nobody's.
func (c *lockstep) free(i int, cidr netip.Prefix) (n addr.Count) {
	for r := range c.peers[i].machine.State().PoolOf(cidr).Ring.OwnedBy(ring.Free) {
		n += r.Size()
	}
	return n
}
