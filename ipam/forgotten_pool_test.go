package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Hosts that were forgotten and are back, where a pool of theirs was removed meanwhile.

// A host is forgotten, and the pool of what it has is removed before it is back: what it had there is told no more, which
// nothing that it is told to do would end, also where no list comes.
func TestConflictsOfARemovedPool(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	back := c.order()[2]
	other := (back + 1) % 3
	c.works(back, cidr)
	c.forgets(other, back, cidr)
	c.comeBack(other)
	c.wait(20 * time.Second)
	for _, p := range c.status(back).Problems {
		t.Errorf("the pool is gone, and %s: %s", p.Text, p.Next)
	}
}

// forgets has a peer give another one up that is lost, and remove the pool of its network.
func (c *lockstep) forgets(by, lost int, cidr netip.Prefix) {
	c.t.Helper()
	c.die(lost)
	c.giveUp(by, lost)
	if err := c.ask(by, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
		c.t.Fatal(err)
	}
}

// removedUnder returns three hosts of which one was forgotten, and is not back yet, with a network, as its engine lists it, and a
// container there, and of which the pool was removed.
func removedUnder(t *testing.T) (c *lockstep, back int, n ipam.Network, kept ipam.InventoryNetwork) {
	t.Helper()
	c = newAwaiting(t)
	c.run(time.Minute, c.agreed)
	back = c.order()[2]
	cidr := prefix("10.60.0.0/29")
	c.lists(back)
	c.lists(back)
	n = c.makes(back, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	web := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}).Address.Address.Addr()
	c.wait(time.Minute)
	kept = on(cidr.String(), listed(web.String(), "web", 7))
	c.lists(back, kept)
	c.forgets((back+1)%3, back, cidr)
	return c, back, n, kept
}

// A host with a network is forgotten, and the network's pool is removed. The host comes back, and its network is removed while
// nobody listens: it is counted no more once lists lack it, though there is no pool that it could have been on.
func TestNetworkWithoutAPoolIsForgotten(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	back := c.order()[2]
	other := (back + 1) % 3
	look := func(networks ...ipam.InventoryNetwork) {
		c.lists(back, networks...)
		c.wait(40 * time.Second)
	}
	look()
	c.network(back, cidr)
	look(on(cidr.String()))
	c.forgets(other, back, cidr)
	c.comeBack(other)
	c.wait(3 * time.Minute)
	for range 3 {
		look()
	}
	if n := c.status(back).Networks; len(n) > 0 {
		t.Errorf("the engine has no network, and %+v are counted", n)
	}
}

// A host with its own gateway on a bridge is forgotten, and the pool is removed and made anew. No container of the host that is back
// gets the gateway's address, also before its interfaces have been read, on which that is.
func TestBridgeOfARemovedPool(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	back := c.order()[2]
	other := (back + 1) % 3
	n := c.ask(back, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Pool.Network
	had := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.wait(10 * time.Second)
	c.forgets(other, back, cidr)
	c.network(other, cidr)
	c.comeBack(other)
	for i := range 255 { // whoever asks for it has the host open it
		if r := c.ask(back, docker(cidr)); r.Address.Address.Addr() == had {
			t.Fatalf("container %d gets %v, which the bridge has", i, had)
		}
	}
	wantErr(t, c.ip(back, cidr, had), ipam.ErrAddressInUse)
}

// listedWhen says which lists have a network whose host was given up.
type listedWhen int

const (
	listedLong listedWhen = iota
	listedNever
	listedUnmade // one was begun while it was in the making, and lacks it
)

// removedPool returns three hosts of which one was forgotten, and is not back yet, with a network whose router an operator named,
// and of which the pool was removed.
func removedPool(t *testing.T, when listedWhen) (c *lockstep, back int, n ipam.Network, kept ipam.InventoryNetwork) {
	t.Helper()
	c = newAwaiting(t)
	c.run(time.Minute, c.agreed)
	back = c.order()[2]
	other := (back + 1) % 3
	cidr, router := prefix("10.60.0.0/29"), address("10.60.0.1")
	c.lists(back)
	c.lists(back)
	n = c.makes(back, cidr, ipam.PoolRequest{})
	if r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: router}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if when == listedUnmade {
		c.wait(100 * time.Millisecond)
		c.lists(back)
	}
	c.wait(time.Minute)
	kept = on(cidr.String())
	kept.Gateways = []netip.Addr{router}
	if when == listedLong {
		c.lists(back, kept)
		c.wait(time.Second)
	}
	c.forgets(other, back, cidr)
	c.wait(5 * time.Minute)
	return c, back, n, kept
}

// noneGetsRouter has containers of a host take all that there is in the pool of removedPool: the router is not in it.
func noneGetsRouter(t *testing.T, what string, c *lockstep, i int, n ipam.Network) {
	t.Helper()
	for count := range 6 { // one more than there are
		if r := c.ask(i, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer}); count < 5 && r.Err != nil {
			t.Fatalf("%s: %v", what, r.Err)
		} else if r.Address.Address.Addr() == address("10.60.0.1") {
			t.Errorf("%s: the router is granted", what)
		}
	}
}

// A host is forgotten, and its network's pool is removed: nobody gets the router that the network keeps back. The pool is made anew
// for a container of the host that is back, or for another host's network, before the next list (seed 2016277102297788412 of
// TestSimLaden). Where no list has had the network, they wait for one (3386105112500102522).
func TestRouterInAPoolThatIsMadeAnew(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		for _, when := range []listedWhen{listedLong, listedNever, listedUnmade} {
			c, back, n, kept := removedPool(t, when)
			other := (back + 1) % 3
			c.comeBack(other)
			if elsewhere {
				c.makes(other, n.Pool, ipam.PoolRequest{Gateway: ipam.GatewayNone})
			}
			wantErr(t, c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer}).Err, ipam.ErrNotReady, "waits for the engine's list")
			c.lists(back, kept)
			c.wait(2 * time.Second)
			c.lists(back, kept)
			c.wait(time.Second)
			noneGetsRouter(t, fmt.Sprintf("elsewhere %t, listed %d", elsewhere, when), c, back, n)
		}
	}
}

// A host with a network that only its lists have told of was given up, its pool was removed, and it makes another one there, which
// its engine gives up. The pool is not removed under the first one.
func TestLostNetworkOnAPoolThatIsMadeAnew(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	back := c.order()[2]
	other := (back + 1) % 3
	cidr := prefix("10.60.0.0/29")
	c.lists(back)
	c.lists(back)
	c.wait(time.Hour)
	for range 3 {
		c.lists(back, on(cidr.String()))
		c.wait(time.Minute)
	}
	c.forgets(other, back, cidr)
	c.wait(5 * time.Minute)
	c.comeBack(other)
	n := c.makes(back, cidr, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	c.wait(time.Second)
	c.lists(back, on(cidr.String()))
	c.wait(time.Second)
	c.ask(back, &ipam.PoolRelease{Network: n})
	c.wait(time.Minute)
	c.lists(back, on(cidr.String()))
	for _, i := range []int{back, other} {
		wantErr(t, c.ask(i, &ipam.PoolRemoval{Pool: cidr.String()}).Err, ipam.ErrPoolInUse)
	}
}

// A host is forgotten under a container, its pool is removed, and it comes back while its engine is asked what it has. The pool is
// made anew for another container before the answer comes, which tells of the first one, and is older than the removal: the other
// one waits for the next (seed 10967706654349123660 of TestSimLaden).
func TestListBegunBeforeThePoolWent(t *testing.T) {
	c, back, n, kept := removedUnder(t)
	cidr, web := n.Pool, kept.Endpoints[0].Address
	other := (back + 1) % 3
	begun := c.mark(back)
	c.comeBack(other)
	call := c.call(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "db"})
	c.run(time.Minute, func() bool { return c.peers[back].machine.State().PoolOf(cidr) != nil })
	for at := range 4 {
		if at > 0 {
			c.wait(2 * time.Second)
			begun = c.mark(back)
		}
		c.call(back, &ipam.Inventory{After: begun, Networks: []ipam.InventoryNetwork{kept}})
		if r, answered := c.peers[back].replies[call]; answered && r.Err == nil && r.Address.Address.Addr() == web {
			t.Fatalf("%v is granted, and web uses it", web)
		}
	}
	if r, answered := c.peers[back].replies[call]; !answered || r.Err != nil {
		t.Errorf("answered %t: %v", answered, r.Err)
	}
}
