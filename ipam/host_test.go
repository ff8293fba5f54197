package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// A pool that another peer creates deals space to a host in which its own
// addresses lie: none of them goes to a container, however soon one starts.
func TestHostAddressesInADeal(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := netip.MustParsePrefix("192.168.50.0/26")
	for i := range c.peers {
		q := &ipam.HostAddresses{}
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

// A network's bridge goes with the network. What the host was seen without, and has again
// since, its LAN has given it: it is not the gateway of the next network.
func TestGatewayThatTheLANGaveTheHost(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	tell := func(addrs ...string) {
		h.Now = h.Now.Add(5 * time.Second)
		q := &ipam.HostAddresses{}
		for _, a := range addrs {
			q.Addresses = append(q.Addresses, netip.PrefixFrom(address(a), 24))
		}
		h.Call(q)
	}
	gateway := func() netip.Addr {
		t.Helper()
		n := network(t, h, "10.50.0.0/24")
		r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Address.Address.Addr()
	}
	n, was := network(t, h, "10.50.0.0/24"), address("10.50.0.1")
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}); r.Err != nil || r.Address.Address.Addr() != was {
		t.Fatalf("the gateway is %v, %v", r.Address, r.Err)
	}
	tell("10.50.0.1")
	h.Call(&ipam.PoolRelease{Network: n})
	if got := gateway(); got != was {
		t.Errorf("the gateway is %v after its network was made anew, it was %v", got, was)
	}
	h.Call(&ipam.PoolRelease{Network: n})
	tell()
	if got := gateway(); got != was {
		t.Errorf("the gateway is %v after its bridge was seen to be gone, it was %v", got, was)
	}
	tell("10.50.0.1")
	h.Call(&ipam.PoolRelease{Network: n})
	tell()
	tell("10.50.0.1")
	if got := gateway(); got == was {
		t.Errorf("%v is the gateway, and the host has it on its LAN", got)
	}
	h.CheckDisk()
}

// A host reaches the containers of its own macvlan network through an interface beside theirs, for
// which somebody allocates an address: that is the client's before, while and after it is there.
func TestAllocatedForAnInterfaceOfTheHost(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	network(t, h, "10.50.0.0/24")
	q := &ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "shim"}
	r := h.Call(q)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	a := r.Address.Address.Addr()
	for _, has := range [][]netip.Prefix{{netip.PrefixFrom(a, 32)}, nil} {
		h.Now = h.Now.Add(time.Minute)
		h.Call(&ipam.HostAddresses{Addresses: has})
		h.Call(lan("10.50.0.0/24"))
		for _, problem := range h.Machine().Status(h.Now).Problems {
			t.Errorf("with %v on its interfaces: %v", has, problem)
		}
		if r := h.Call(q); r.Err != nil || r.Address.Address.Addr() != a {
			t.Errorf("with %v on its interfaces shim has %v, %v, not %v", has, r.Address, r.Err, a)
		}
	}
	h.CheckDisk()
}
