package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// network has a peer's engine make a network with a shared gateway and some
// auxiliary addresses.
func (c *lockstep) network(i int, cidr netip.Prefix, aux ...string) ipam.Network {
	c.t.Helper()
	r := c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst})
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	for _, a := range aux {
		q := &ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForUnmarked, Address: netip.MustParseAddr(a)}
		if r := c.ask(i, q); r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
	return r.Pool.Network
}

// TestReservedPoolStays makes a network of which all addresses are reserved on
// two hosts: nobody owns anything of its pool, and yet it does not go under the
// network of the second.
func TestReservedPoolStays(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/30")
	n := c.network(0, cidr, "10.60.0.2")
	c.network(1, cidr)
	c.ask(0, &ipam.PoolRelease{Network: n})
	refused(t, c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err, "host-1 has 1 network")
	refused(t, c.ask(2, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")}).Err, "host-1 has 1 network")
	c.ask(1, &ipam.PoolRelease{Network: n})
	if err := c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
		t.Error(err)
	}
}

// TestGivenAwayPoolStays has a host give the last that it owns of a pool to
// another, and go on using its network.
func TestGivenAwayPoolStays(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/29")
	n := c.network(0, cidr)
	c.network(1, cidr)
	var got []netip.Addr
	for {
		r := c.ask(0, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer})
		if r.Err != nil {
			break
		}
		got = append(got, r.Address.Address.Addr())
	}
	for _, s := range c.peers[1].machine.Status(c.now).Pools {
		if s.Pool == cidr && s.Mine != 0 {
			t.Fatalf("host-1 has still %d addresses", s.Mine)
		}
	}
	for _, a := range got {
		c.ask(0, &ipam.AddressRelease{Network: n, Address: a})
	}
	c.ask(0, &ipam.PoolRelease{Network: n})
	refused(t, c.ask(2, &ipam.PoolRemoval{Pool: cidr.String()}).Err, "host-1 has 1 network")
}

// TestEvictedUserKeepsPool evicts a host with a network in which it owns
// nothing: it may be back, and its pool stays as long as that may be.
func TestEvictedUserKeepsPool(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/30")
	n := c.network(0, cidr, "10.60.0.2")
	c.network(2, cidr)
	c.ask(0, &ipam.PoolRelease{Network: n})
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	refused(t, c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err, "ringlet forget host-2")
	if err := c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	if err := c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
		t.Error(err)
	}
}

// TestLeavingBeginsNothing asks a host that is leaving, and still owns space
// that rests, for what would keep it.
func TestLeavingBeginsNothing(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/24")
	r := c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	c.ask(0, &ipam.AddressRelease{Network: local(cidr), Address: r.Address.Address.Addr()})
	c.call(0, &ipam.LeaveRequest{})
	refused(t, c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Err, "leaving its cluster")
	refused(t, c.ask(0, &ipam.ClientRequest{Pool: cidr.String(), ID: "vm"}).Err, "leaving its cluster")
	c.run(10*time.Minute, func() bool { return c.peers[0].machine.Status(c.now).State == ipam.Left })
}

// TestNetworkWhileItsPoolGoes asks for a network on a pool that the same host is
// having removed.
func TestNetworkWhileItsPoolGoes(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/30")
	n := c.network(0, cidr, "10.60.0.2")
	c.ask(0, &ipam.PoolRelease{Network: n})
	n = c.network(1, cidr)
	c.call(1, &ipam.PoolRelease{Network: n})
	removal := c.call(1, &ipam.PoolRemoval{Pool: cidr.String()})
	again := c.call(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst})
	c.step(1, ipam.Tick{}) // it is tried again before anything is decided
	for _, call := range []uint64{removal, again} {
		c.run(time.Minute, func() bool { _, ok := c.peers[1].replies[call]; return ok })
	}
	c.wait(time.Second)
	p := c.peers[1].machine.State().PoolOf(cidr)
	if p == nil || p.ReservationAt(1) == nil || !p.UsedBy(c.peers[1].machine.Self()) {
		t.Errorf("the network is on pool %+v", p)
	}
}
