package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A pool that another peer creates deals space to a host in which its own
// addresses lie: none of them goes to a container, however soon one starts.
func TestHostAddressesInADeal(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := netip.MustParsePrefix("192.168.50.0/26")
	for i := range c.peers {
		q := &ipam.HostAddresses{At: c.now}
		for n := range 64 {
			if n%2 == 0 && n%3 == i { // each has even ones, so that of two neighbours one is free
				q.Addresses = append(q.Addresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 50, byte(n)}), 26))
			}
		}
		c.ask(i, q)
	}
	request := func(i, n int) netip.Addr {
		r := c.ask(i, &ipam.AddressRequest{
			Network: ipam.Network{Space: ipam.Local, Pool: cidr, Range: cidr}, Purpose: ipam.ForContainer, Name: fmt.Sprint("c-", i, "-", n),
		})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Address.Address.Addr()
	}
	c.network(0, cidr)
	for i := range c.peers {
		for n := range 5 {
			a := request(i, n)
			if last := int(a.As4()[3]); last%2 == 0 && last%3 == i {
				t.Errorf("%s gives a container %v, which is its own", c.peers[i].cfg.Name, a)
			}
		}
	}
	c.run(time.Minute, c.agreed)
	for i, p := range c.peers {
		for _, err := range p.machine.Check(c.now) {
			t.Errorf("%s: %v", p.cfg.Name, err)
		}
		for _, problem := range c.status(i).Problems {
			t.Errorf("%s: %v", p.cfg.Name, problem)
		}
	}
}
