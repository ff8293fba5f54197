package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A LAN on which every host has an address of its own, and a pool of it.

const homeLAN = "192.168.1.0/24"

// onLAN has n hosts with an address on the LAN, which they are told of every second.
func onLAN(t *testing.T, n int) (c *lockstep, own []netip.Addr, look func(time.Duration)) {
	t.Helper()
	c = newLockstep(t, n)
	c.found()
	for i := range c.peers {
		own = append(own, netip.AddrFrom4([4]byte{192, 168, 1, byte(10 + i)}))
	}
	look = func(d time.Duration) {
		for end := c.now.Add(d); c.now.Before(end); c.wait(time.Second) {
			for i, a := range own {
				c.call(i, &ipam.HostAddresses{At: c.now, Addresses: []netip.Prefix{netip.PrefixFrom(a, 24)}})
			}
		}
	}
	return c, own, look
}

// hostsHave reports whether each address is held by the host that has it.
func hostsHave(c *lockstep, own []netip.Addr) bool {
	for i, a := range own {
		if s, err := c.peers[i].machine.Who(c.now, a); err != nil || s.State != "host" {
			return false
		}
	}
	return true
}

// A pool that nobody uses goes though hosts have addresses in it, for an operator, and
// since a wider network needs the space; and within the time of one call, however many
// hosts there are.
func TestPoolOnTheLANOfAllHosts(t *testing.T) {
	for what, remove := range map[string]ipam.Request{
		"ringlet pool rm": &ipam.PoolRemoval{Pool: homeLAN},
		"it makes room":   &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("192.168.0.0/16")},
	} {
		for _, n := range []int{3, 4, 9} {
			c, own, look := onLAN(t, n)
			if err := c.ask(0, &ipam.PoolRelease{Network: c.network(0, prefix(homeLAN))}).Err; err != nil {
				t.Fatal(err)
			}
			look(5 * time.Second)
			if !hostsHave(c, own) {
				t.Fatalf("%s, %d hosts: not all hold their own addresses", what, n)
			}
			call := c.call(1, remove)
			look(20 * time.Second)
			if r, ok := c.peers[1].replies[call]; !ok || r.Err != nil {
				t.Errorf("%s, %d hosts: %v, %v", what, n, ok, r.Err)
			}
		}
	}
}

// Where one host uses the pool it stays, and nobody gives up the address that it has
// itself, which others could hand out.
func TestPoolOnTheLANThatOneHostUses(t *testing.T) {
	for user := range 4 {
		c, own, look := onLAN(t, 4)
		c.network(user, prefix(homeLAN))
		look(5 * time.Second)
		for asks := range 4 {
			if asks == user {
				continue
			}
			call := c.call(asks, &ipam.PoolRemoval{Pool: homeLAN})
			for range 20 {
				c.wait(time.Second)
				if !hostsHave(c, own) {
					t.Fatalf("host-%d asks, and host-%d uses it: an address of a host was given up", asks, user)
				}
			}
			wantErr(t, c.peers[asks].replies[call].Err, ipam.ErrPoolInUse)
		}
	}
}

// Who wanted the pool to go is no more: each host takes its own address again.
func TestPoolOnTheLANStaysAfterAll(t *testing.T) {
	c, own, look := onLAN(t, 4)
	if err := c.ask(0, &ipam.PoolRelease{Network: c.network(0, prefix(homeLAN))}).Err; err != nil {
		t.Fatal(err)
	}
	look(5 * time.Second)
	c.call(1, &ipam.PoolRemoval{Pool: homeLAN})
	c.wait(100 * time.Millisecond)
	c.silence(1)
	look(time.Minute)
	c.heal()
	c.silence()
	look(10 * time.Second)
	if p := c.peers[0].machine.State().PoolOf(prefix(homeLAN)); p != nil && !hostsHave(c, own) {
		t.Error("the pool stays, and not all hosts hold their own addresses")
	}
}
