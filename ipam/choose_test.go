package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// choosers is three hosts that choose subnets from a universe.
func choosers(t *testing.T, universe ...string) *lockstep {
	t.Helper()
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			for _, u := range universe {
				p.cfg.Subnets.Universe = append(p.cfg.Subnets.Universe, prefix(u))
			}
		}
	})
	c.run(time.Minute, c.agreed)
	return c
}

// Hosts want more subnets at once than there are, over and over: each is chosen once,
// and none is lost.
func TestChosenSubnetsRunOut(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		c := choosers(t, "10.32.0.0/22", "fd00:77::/62")
		for range 3 {
			calls := map[int][]uint64{}
			for range 2 {
				for i := range c.peers {
					calls[i] = append(calls[i], c.call(i, &ipam.PoolRequest{Space: ipam.Local, V6: v6, Gateway: ipam.GatewayFirst}))
				}
			}
			got := map[netip.Prefix]int{}
			for i := range c.peers {
				for _, id := range calls[i] {
					c.run(time.Minute, func() bool { _, ok := c.peers[i].replies[id]; return ok })
					r := c.peers[i].replies[id]
					if r.Err != nil {
						wantErr(t, r.Err, ipam.ErrNoSubnet)
						continue
					}
					got[r.Pool.Network.Pool]++
				}
			}
			for p, n := range got {
				if n > 1 {
					t.Errorf("%v was chosen %d times", p, n)
				}
			}
			if len(got) != 4 {
				t.Errorf("got %v, of 4 subnets", got)
			}
			for i := range c.peers {
				for _, id := range calls[i] {
					if r := c.peers[i].replies[id]; r.Err == nil {
						c.ask(i, &ipam.PoolRelease{Network: r.Pool.Network})
					}
				}
			}
			c.wait(5 * time.Minute)
			c.check()
		}
	}
}

// The only subnet left is another host's: one that lives and has a network on it, of the
// same size or of another, or one that was evicted. It is not chosen, and one that nobody uses is.
func TestChosenSubnetIsNobodyElses(t *testing.T) {
	for what, taken := range map[string]string{"the same": "10.32.0.0/24", "a part of it": "10.32.0.0/25"} {
		t.Run(what, func(t *testing.T) {
			c := choosers(t, "10.32.0.0/23")
			c.network(0, prefix(taken))
			idle := c.network(0, prefix("10.32.1.0/25"))
			c.ask(0, &ipam.PoolRelease{Network: idle})
			c.wait(3 * time.Minute)
			r := c.ask(1, &ipam.PoolRequest{Space: ipam.Local})
			if r.Err != nil || r.Pool.Network.Pool != prefix("10.32.1.0/24") {
				t.Errorf("got %v, %v", r.Pool.Network.Pool, r.Err)
			}
			wantErr(t, c.ask(2, &ipam.PoolRequest{Space: ipam.Local}).Err, ipam.ErrNoSubnet)
		})
	}
	c := choosers(t, "10.32.0.0/24")
	if r := c.ask(2, &ipam.PoolRequest{Space: ipam.Local}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	wantErr(t, c.ask(0, &ipam.PoolRequest{Space: ipam.Local}).Err, ipam.ErrNoSubnet)
}

// All subnets are used up. Other hosts use most of the pools, one that is wider than what is
// chosen, and one whose host is down, among them. Without asking for each the one is found
// that nobody uses.
func TestChosenBesideMuchThatIsUsed(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Subnets.Universe, p.cfg.Deal = append(p.cfg.Subnets.Universe, prefix("10.32.0.0/20")), chronicle.DealNone
		}
	})
	c.run(time.Minute, c.agreed)
	c.network(0, prefix("10.32.0.0/22"))
	c.network(2, prefix("10.32.4.0/24"))
	var idle ipam.Network
	for i := byte(5); i < 16; i++ {
		idle = c.network(0, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 32, i, 0}), 24))
	}
	c.ask(0, &ipam.PoolRelease{Network: idle})
	c.wait(3 * time.Minute)
	c.die(2)
	before := c.frames
	if r := c.ask(1, &ipam.PoolRequest{Space: ipam.Local}); r.Err != nil || r.Pool.Network.Pool != idle.Pool {
		t.Errorf("got %v, %v, want %v", r.Pool.Network.Pool, r.Err, idle.Pool)
	}
	if n := c.frames - before; n > 100 {
		t.Errorf("it took %d frames", n)
	}
}

// The same of pools that are to be left by those who have a part of them, and whose
// refusals are remembered.
func TestChosenWherePartsAreOthers(t *testing.T) {
	c := choosers(t, "10.32.0.0/20")
	for i := range byte(15) {
		n := c.network(0, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 32, i, 0}), 24))
		c.ask(2, &ipam.ClientRequest{Pool: n.Pool.String(), ID: "vm"})
		c.ask(0, &ipam.PoolRelease{Network: n})
	}
	last := c.network(0, prefix("10.32.15.0/24"))
	c.ask(0, &ipam.PoolRelease{Network: last})
	c.wait(3 * time.Minute)
	before := c.frames
	if r := c.ask(1, &ipam.PoolRequest{Space: ipam.Local}); r.Err != nil || r.Pool.Network.Pool != prefix("10.32.15.0/24") {
		t.Errorf("got %v, %v", r.Pool.Network.Pool, r.Err)
	}
	wantErr(t, c.ask(0, &ipam.PoolRequest{Space: ipam.Local}).Err, ipam.ErrNoSubnet)
	if n := c.frames - before; n > 300 {
		t.Errorf("it took %d frames", n)
	}
}

// A universe of which an evicted host may use all is looked through at once.
func TestChosenInAWidePool(t *testing.T) {
	for universe, bits := range map[string]int{"10.32.0.0/12": 24, "fd00:77::/64": 80} {
		c := choosers(t, universe)
		c.network(2, prefix(universe))
		c.die(2)
		if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
			t.Fatal(err)
		}
		q := &ipam.PoolRequest{Space: ipam.Local, V6: prefix(universe).Addr().Is6(), Bits: bits}
		wantErr(t, c.ask(0, q).Err, ipam.ErrNoSubnet)
	}
}
