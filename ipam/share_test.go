package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// What each peer sees of the shares adds up to the pool, and agrees with what
// the others hold once they have announced it.
func TestSharesAddUp(t *testing.T) {
	c, cidr := lab(t)
	announced := func() bool {
		for i := range c.peers {
			for _, s := range c.peers[i].machine.Status(c.now).Pools[0].Shares {
				if !s.Announced {
					return false
				}
			}
		}
		return true
	}
	c.run(5*time.Minute, announced)
	for i := range c.peers {
		p := c.peers[i].machine.Status(c.now).Pools[0]
		if p.Pool != cidr || len(p.Shares) != 3 {
			t.Fatalf("peer %d sees %d shares of %v", i, len(p.Shares), p.Pool)
		}
		var owned, held, resting uint64
		for n, s := range p.Shares {
			owned, held, resting = owned+s.Owned, held+s.Held, resting+s.Resting
			if s.Held != 5 || s.Owned < s.Held+s.Resting {
				t.Errorf("peer %d sees %+v", i, s)
			}
			if n > 0 && p.Shares[n-1].Owner >= s.Owner {
				t.Errorf("peer %d: out of order: %+v", i, p.Shares)
			}
		}
		if owned+p.Free+p.Reserved+p.Quarantined != p.Size || held != p.Held || resting != p.Resting {
			t.Errorf("peer %d: shares %+v do not add up to %+v", i, p.Shares, p)
		}
	}
	c.die(2)
	if p := c.peers[0].machine.Status(c.now).Pools[0]; len(p.Shares) != 3 {
		t.Errorf("without a peer: %+v", p.Shares)
	}
}

// A host whose database is new takes over what it had of an IPv6 pool, an eighth of
// a /64, and the others hear that all of it is free.
func TestSharesOfAnIPv6PoolAreTold(t *testing.T) {
	c := newLockstepWith(t, 3, onOwnMachines)
	c.found()
	wanted := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("fd00:5::/64")}
	for i := range c.peers {
		if err := c.ask(i, wanted).Err; err != nil {
			t.Fatal(err)
		}
	}
	c.wait(20 * time.Second)
	former := c.peers[0].machine.Self()
	c.reinstall(0, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	for i := range c.peers {
		c.step(i, &ipam.Presence{Peer: former})
	}
	c.wait(3 * time.Second)
	if err := c.ask(0, wanted).Err; err != nil {
		t.Fatal(err)
	}
	c.wait(time.Minute)
	for i := range c.peers {
		for _, p := range c.status(i).Pools {
			if p.Pool == wanted.Pool && p.Held > 0 {
				t.Errorf("there is no container, and host-%d sees %d addresses held: %+v", i, p.Held, p.Shares)
			}
		}
	}
}

// What people are told of networks on a pool counts also those that a new database was never
// asked for, and none twice.
func TestNetworksOfAPool(t *testing.T) {
	h := withSocket(t)
	networks := func() int {
		t.Helper()
		pools := h.Machine().Status(h.Now).Pools
		if len(pools) != 1 {
			t.Fatalf("there are %d pools", len(pools))
		}
		return pools[0].Networks
	}
	look(h, on("10.50.0.0/24"))
	if got := networks(); got != 1 {
		t.Errorf("%d networks are told of, the engine has 1", got)
	}
	n := network(t, h, "10.50.0.0/24") // the engine asks for it again
	look(h, on("10.50.0.0/24"))
	if got := networks(); got != 1 {
		t.Errorf("%d networks are told of after a replay, the engine has 1", got)
	}
	wantErr(t, h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/24"}).Err, ipam.ErrPoolInUse, "has 1 network of this host on it")
	h.Call(&ipam.PoolRelease{Network: n})
	h.Now = h.Now.Add(time.Minute) // it may have been asked for anew, and be in the making
	look(h)
	if got := networks(); got != 0 {
		t.Errorf("%d networks are told of, the engine has none", got)
	}
}
