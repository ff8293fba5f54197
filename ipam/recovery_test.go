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
	"github.com/ringlet/ringlet/ipam/wire"
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

// Two of five are left. One recovers the cluster while the other is off; that one comes back, sees the first, which
// is in another cluster by now, and somebody has it recover the cluster, too. Then both would have all that is free.
func TestRecoverBesideOneThatHasRecovered(t *testing.T) {
	c := newLockstep(t, 5)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	for i := range c.peers {
		c.network(i, cidr)
	}
	c.wait(time.Minute)
	order := c.order()
	a, b := order[3], order[4]
	c.die(order[0], order[1], order[2], b)
	if r := c.ask(a, &ipam.RecoverRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.dead = map[int]bool{order[0]: true, order[1]: true, order[2]: true}
	c.start(b)
	for _, i := range order[:3] {
		c.step(b, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	c.step(a, &ipam.Presence{Peer: c.peers[b].machine.Self(), Alive: true})
	c.wait(30 * time.Second)
	if err := c.ask(b, &ipam.RecoverRequest{}).Err; err == nil {
		t.Errorf("%s recovers the cluster beside %s, which it sees", c.name(b), c.name(a))
	} else {
		t.Log(err)
	}
	_ = c.full(a, cidr)
	_ = c.full(b, cidr)
	c.heldOnce(cidr)
}

// As in TestRecoverBesideOneThatHasRecovered, but the one that recovered the cluster is off again by now. What the second
// one sees is another of the five, whose data was removed, and which has joined the first as a new peer.
func TestRecoverBesideOneThatJoinedAnew(t *testing.T) {
	c := newLockstepWith(t, 5, onOwnMachines)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	for i := range c.peers {
		c.network(i, cidr)
	}
	c.wait(time.Minute)
	order := c.order()
	a, b, anew := order[3], order[4], order[0]
	c.die(order[0], order[1], order[2], b)
	if r := c.ask(a, &ipam.RecoverRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.dead = map[int]bool{order[1]: true, order[2]: true, b: true}
	was := c.rebuild(anew)
	c.run(time.Minute, func() bool { return len(c.peers[a].machine.State().Roster) == 2 })
	c.wait(10 * time.Second)
	c.network(anew, cidr)
	c.dead = map[int]bool{a: true, order[1]: true, order[2]: true}
	c.start(b)
	for _, i := range order[:4] {
		id := c.peers[i].machine.Self()
		c.step(b, &ipam.Presence{Peer: id, Alive: i == anew})
	}
	c.step(b, &ipam.Presence{Peer: was})
	c.step(anew, &ipam.Presence{Peer: c.peers[b].machine.Self(), Alive: true})
	c.wait(30 * time.Second)
	if err := c.ask(b, &ipam.RecoverRequest{}).Err; err == nil {
		t.Errorf("%s recovers the cluster beside %s, which it sees", c.name(b), c.name(anew))
	} else {
		t.Log(err)
	}
	c.dead = map[int]bool{order[1]: true, order[2]: true}
	_ = c.full(anew, cidr)
	_ = c.full(a, cidr)
	_ = c.full(b, cidr)
	c.heldOnce(cidr)
}

// Of three hosts without a pool one is cut off, and the two others evict it; the second has accepted that, does not
// hear that it was decided, and loses the first as well. It recovers the cluster, and meets the one that was cut off,
// which is in the old one. It does not forget for that what it has voted there.
func TestRecoveredVotesOnce(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	order := c.order()
	first, survives, lags := order[0], order[1], order[2]
	was := c.peers[first].machine.State().Slot
	c.lose = func(f flight) bool {
		return f.from == lags || f.to == lags || f.from == first && f.to == survives && f.frame.Slot > was
	}
	c.part(lags, first, survives)
	c.wait(10 * time.Second)
	if err := c.ask(first, &ipam.EvictRequest{Peer: c.name(lags)}).Err; err != nil {
		t.Fatal(err)
	}
	c.queue = nil
	c.apart()
	if got := c.peers[survives].machine.State().Slot; got != was {
		t.Fatalf("slot %d, was %d", got, was)
	}
	c.wait(15 * time.Second)
	if err := c.ask(survives, &ipam.RecoverRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	c.meets(survives, lags) // the old cluster
	c.see(survives, lags)
	c.wait(5 * time.Second)
	cidr := prefix("10.50.0.0/24")
	c.call(lags, creation(cidr))
	c.wait(10 * time.Second) // fails where a slot is decided twice
	c.call(first, creation(cidr))
	c.wait(10 * time.Second)
	for i := range c.peers {
		_ = c.full(i, cidr)
	}
}

// Another's network has its gateway, or an auxiliary address, in the share of a survivor, which reserved it and has not
// heard that this was decided. It recovers the cluster, and does not hand that out.
func TestRecoveredWhatWasReserved(t *testing.T) {
	for _, purpose := range []ipam.Purpose{ipam.ForGateway, ipam.ForUnmarked} {
		c := newLockstepWith(t, 5, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg.Deal = chronicle.DealAll
			}
		})
		c.run(time.Minute, c.agreed)
		order := c.order()
		survivor, other := order[4], order[3]
		cidr := prefix("10.50.0.0/24")
		for i := range c.peers {
			c.network(i, cidr)
		}
		c.wait(time.Minute)
		given := address("10.50.0.150") // in the fifth share
		was := c.peers[survivor].machine.State().Slot
		c.lose = func(f flight) bool {
			switch f.frame.Body.(type) {
			case wire.Decided, wire.Accept:
				return f.to == survivor
			}
			return false
		}
		if r := c.ask(other, &ipam.AddressRequest{Network: local(cidr), Purpose: purpose, Address: given}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := c.peers[survivor].machine.State().Slot; got != was {
			t.Fatalf("slot %d, was %d", got, was)
		}
		// Three are lost for good, and the two that are left are cut off from each other.
		c.queue = nil
		c.apart()
		c.wait(15 * time.Second)
		if r := c.ask(survivor, &ipam.RecoverRequest{}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.tick(2*time.Second, survivor)
		for {
			r := c.ask(survivor, docker(cidr))
			if r.Err != nil {
				break
			}
			if r.Address.Address.Addr() == given {
				t.Errorf("%v: %s recovered the cluster and hands out %v, which the network of %s keeps back", purpose, c.name(survivor), given, c.name(other))
				break
			}
		}
	}
}
