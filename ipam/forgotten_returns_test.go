package ipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// Hosts that were forgotten and are back, with what they had: what they get again, and what they tell.

// A host has an address of its own on the LAN, and is forgotten. Meanwhile an operator excludes that address, or a network
// of another host names it as its router. The host is back: nobody else can get the address, and there is no conflict. When it
// is kept back no more it is the host's again.
func TestOwnAddressThatIsKeptBackMeanwhile(t *testing.T) {
	cidr, own := prefix("10.60.0.0/24"), address("10.60.0.200")
	for _, excluded := range []bool{true, false} {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		back := c.order()[2]
		other := (back + 1) % 3
		look := func() {
			for range 3 {
				c.call(back, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
				c.wait(20 * time.Second)
			}
		}
		look()
		c.ask(other, &ipam.PoolCreation{CIDR: cidr})
		look()
		c.die(back)
		c.giveUp(other, back)
		n := local(cidr)
		var r ipam.Reply
		if excluded {
			r = c.ask(other, &ipam.ReserveRequest{First: own, Last: own, Kind: chronicle.KindExcluded})
		} else {
			n = c.ask(other, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayNone}).Pool.Network
			r = c.ask(other, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: own})
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		c.comeBack(other)
		look()
		for _, p := range c.status(back).Problems {
			t.Errorf("excluded %t: %s", excluded, p.Text)
		}
		for i := range c.peers {
			wantErr(t, c.ip(i, cidr, own), ipam.ErrAddressReserved)
		}
		if excluded {
			r = c.ask(other, &ipam.UnreserveRequest{First: own, Last: own, Kind: chronicle.KindExcluded})
		} else {
			r = c.ask(other, &ipam.PoolRelease{Network: n})
			c.wait(2 * time.Minute)
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		look()
		wantErr(t, c.ip(other, cidr, own), ipam.ErrAddressInUse, c.name(back))
		c.check()
	}
}

// A host has a container with an address that is another one's, as where it was forgotten and its database is lost since. That
// is noted once, and told as long as it lasts, though the owner of the address is asked anew for each list.
func TestConflictWithAnotherHostIsNotedOnce(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr, at := prefix("10.60.0.0/24"), address("10.60.0.99")
	back := c.order()[2]
	other := (back + 1) % 3
	conflicts := func() int { return len(c.conflicts(back)) }
	lists := map[int][]ipam.InventoryNetwork{}
	look := func() {
		for i := range c.peers {
			for range 4 { // the owner is asked by one list, and its answer is taken in by the next
				c.ask(i, &ipam.Inventory{Networks: lists[i]})
				c.wait(time.Second)
			}
		}
	}
	look()
	c.network(other, cidr)
	if err := c.ip(other, cidr, at); err != nil {
		t.Fatal(err)
	}
	lists[back] = []ipam.InventoryNetwork{on(cidr.String(), listed(at.String(), "web", 7))}
	lists[other] = []ipam.InventoryNetwork{on(cidr.String(), listed(at.String(), "other", 8))}
	look()
	look()
	noted := len(c.peers[back].noted)
	for range 10 {
		for end := c.now.Add(time.Minute); c.now.Before(end); c.wait(100 * time.Millisecond) {
			if conflicts() != 1 {
				t.Fatalf("%d conflicts are told", conflicts())
			}
		}
		if c.ask(back, &ipam.Inventory{Networks: lists[back]}); conflicts() != 1 {
			t.Fatalf("%d conflicts are told while the owner is asked", conflicts())
		}
		c.wait(time.Second)
		look()
	}
	if again := c.peers[back].noted[noted:]; len(again) > 0 {
		t.Errorf("it was noted %d times more: %+v", len(again), again)
	}
	c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: at})
	delete(lists, other)
	for range 3 {
		look()
		c.wait(20 * time.Second)
	}
	if conflicts() != 0 {
		t.Errorf("%+v", c.status(back).Problems)
	}
	wantErr(t, c.ip(other, cidr, at), ipam.ErrAddressInUse, c.name(back))
}

// A host lists a container that it does not hold, as another one has its address: it was forgotten, and the pool is another one by
// now. The other one ends, and a container of the host asks for that address before the next list: it is refused, as the list has it.
// Once the first one is released, too, the next one gets it.
func TestListedContainerThatIsNotHeldYet(t *testing.T) {
	for _, released := range []bool{false, true} {
		c := newAwaiting(t)
		c.run(time.Minute, c.agreed)
		cidr, at := prefix("10.60.0.0/24"), address("10.60.0.99")
		back := c.order()[2]
		other := (back + 1) % 3
		lists := map[int][]ipam.InventoryNetwork{}
		look := func() {
			for i := range c.peers {
				c.call(i, &ipam.Inventory{Networks: lists[i]})
			}
			c.wait(2 * time.Second)
		}
		look()
		c.network(other, cidr)
		if err := c.ip(other, cidr, at); err != nil {
			t.Fatal(err)
		}
		lists[back] = []ipam.InventoryNetwork{on(cidr.String(), listed(at.String(), "web", 7))}
		lists[other] = []ipam.InventoryNetwork{on(cidr.String(), listed(at.String(), "other", 8))}
		for range 4 {
			look()
		}
		if got := c.conflicts(back); !slices.Equal(got, []netip.Addr{at}) {
			t.Fatalf("conflicts about %v", got)
		}
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: at})
		if released {
			c.ask(back, &ipam.AddressRelease{Network: local(cidr), Address: at})
		}
		err := c.ask(back, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "new", Address: at, MAC: ipam.MAC{2, 0, 0, 0, 0, 9}}).Err
		if (err == nil) != released {
			t.Errorf("released %t: %v", released, err)
		}
		if len(c.conflicts(back)) > 0 && !released {
			t.Errorf("it is this host's, and it tells of %+v", c.status(back).Problems)
		}
		c.check()
	}
}
