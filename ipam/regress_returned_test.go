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

// A host is forgotten, and comes back with its containers, with what a client has, and with an address of its own
// on the LAN. What nobody has got since is its own again, whoever's space it is by now, and is handed out to nobody
// else; the rest is a conflict until the other holder goes.
func TestForgottenHostHasAgainWhatNobodyGot(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	taken, freed, left, own := address("10.60.0.99"), address("10.60.0.100"), address("10.60.0.101"), address("10.60.0.200")
	back := c.order()[2]
	other := (back + 1) % 3
	containers := []ipam.InventoryEndpoint{listed(taken.String(), "web", 7), listed(freed.String(), "db", 8), listed(left.String(), "mail", 9)}
	look := func(endpoints ...ipam.InventoryEndpoint) {
		c.listed(back, cidr, endpoints...)
		c.call(back, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
		c.wait(20 * time.Second)
	}
	look()
	look()
	c.network(back, cidr)
	for _, e := range containers {
		r := c.ask(back, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: e.Name, Address: e.Address, MAC: e.MAC})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	vm := c.ask(back, &ipam.ClientRequest{Pool: cidr.String(), ID: "vm"}).Address.Address.Addr()
	look(containers...)
	look(containers...)
	c.die(back)
	c.giveUp(other, back)
	network := c.network(other, cidr)
	for _, a := range []netip.Addr{taken, freed} {
		if err := c.ip(other, cidr, a); err != nil {
			t.Fatal(err)
		}
	}
	c.ask(other, &ipam.AddressRelease{Network: network, Address: freed})

	c.comeBack(other)
	if len(c.conflicts(back)) == 0 {
		t.Fatal("nothing is in the space of others")
	}
	look(containers...)
	look(containers...)
	if got := c.conflicts(back); !slices.Equal(got, []netip.Addr{taken}) {
		t.Errorf("conflicts about %v, and %v alone is another's", got, taken)
	}
	for _, a := range []netip.Addr{freed, left, vm, own} {
		wantErr(t, c.ip(other, cidr, a), ipam.ErrAddressInUse, c.name(back))
	}

	c.ask(other, &ipam.AddressRelease{Network: network, Address: taken})
	look(containers...)
	look(containers...)
	if got := c.conflicts(back); len(got) > 0 {
		t.Errorf("conflicts about %v, which nobody else has", got)
	}
	wantErr(t, c.ip(other, cidr, taken), ipam.ErrAddressInUse, c.name(back))
}

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
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		look()
		wantErr(t, c.ip(other, cidr, own), ipam.ErrAddressInUse, c.name(back))
		c.check()
	}
}

// A host that was forgotten is back with a container whose address another one has by now, and its process starts anew. It
// tells of that also where no list comes: it has no engine's socket, or its engine answers nothing.
func TestConflictsOfAForgottenHostAfterAStart(t *testing.T) {
	cidr, at := prefix("10.60.0.0/24"), address("10.60.0.99")
	for _, socket := range []bool{false, true} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg.AwaitInventory = socket
			}
		})
		c.run(time.Minute, c.agreed)
		for i := range c.peers {
			if socket {
				c.call(i, &ipam.Inventory{})
			}
		}
		c.wait(20 * time.Second)
		back := c.order()[2]
		other := (back + 1) % 3
		c.network(back, cidr)
		if err := c.ip(back, cidr, at); err != nil {
			t.Fatal(err)
		}
		c.die(back)
		c.giveUp(other, back)
		if err := c.ip(other, cidr, at); err != nil {
			t.Fatal(err)
		}
		c.comeBack(other)
		for range 2 {
			c.start(back)
			c.wait(5 * time.Second)
			if socket {
				c.call(back, &ipam.Blindness{})
			}
			for range 3 {
				c.call(back, &ipam.HostAddresses{})
				c.wait(20 * time.Second)
			}
			if !slices.Contains(c.conflicts(back), at) {
				t.Errorf("socket %t: it has %v, as another host, and tells of %+v", socket, at, c.status(back).Problems)
			}
		}
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: at})
		for range 4 {
			c.call(back, &ipam.HostAddresses{})
			c.wait(20 * time.Second)
		}
		if got := c.conflicts(back); len(got) > 0 {
			t.Errorf("socket %t: it alone has %v, and tells of conflicts about %v", socket, at, got)
		}
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
			inv := &ipam.Inventory{Networks: lists[i]}
			for again := c.ask(i, inv).Again; again == time.Second; again = c.ask(i, inv).Again {
				c.wait(again)
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

// A host that was forgotten is back with very many containers. It asks for their addresses at once, and not in as many
// messages, each of which has all that was asked for before.
func TestManyAddressesOfAForgottenHost(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/16")
	back := c.order()[2]
	other := (back + 1) % 3
	c.ask(other, &ipam.PoolCreation{CIDR: cidr})
	const many = 1500
	for range many {
		if r := c.ask(back, docker(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.die(back)
	c.giveUp(other, back)
	c.comeBack(other)
	if n := len(c.status(back).Problems); n == 0 {
		t.Fatal("nothing is in the space of others")
	}
	frames, slot := c.frames, c.peers[back].machine.State().Slot
	for range 3 { // the second one while the first is under way
		c.call(back, &ipam.HostAddresses{})
	}
	c.wait(20 * time.Second)
	for _, p := range c.status(back).Problems {
		t.Error(p.Text)
	}
	if n := c.holds(back, cidr); n != many {
		t.Errorf("it holds %d addresses of %d", n, many)
	}
	frames, slots := c.frames-frames, c.peers[back].machine.State().Slot-slot
	if frames > 200 || slots > 10 {
		t.Errorf("that took %d frames and %d slots", frames, slots)
	}
	c.check()
}

// A holder outside Docker asks for its address again on a host that was forgotten and is back. It gets it if nobody else has got it, at
// once; else it is refused that, and gets another one where any will do.
func TestClientOfAForgottenHost(t *testing.T) {
	cidr := prefix("10.60.0.0/24")
	for _, taken := range []bool{false, true} {
		for _, named := range []bool{false, true} {
			c := newLockstep(t, 3)
			c.run(time.Minute, c.agreed)
			back := c.order()[2]
			other := (back + 1) % 3
			c.ask(back, &ipam.PoolCreation{CIDR: cidr})
			vm := &ipam.ClientRequest{Pool: cidr.String(), ID: "vm"}
			had := c.ask(back, vm).Address.Address.Addr()
			c.die(back)
			c.giveUp(other, back)
			if taken {
				if err := c.ip(other, cidr, had); err != nil {
					t.Fatal(err)
				}
			}
			c.comeBack(other)
			if named {
				vm.Address = had
			}
			r := c.ask(back, vm)
			switch got := r.Address.Address.Addr(); {
			case taken && named:
				wantErr(t, r.Err, ipam.ErrAddressInUse, c.name(other))
			case r.Err != nil:
				t.Errorf("taken %t, named %t: %v", taken, named, r.Err)
			case (got == had) == taken:
				t.Errorf("taken %t, named %t: it had %v, and gets %v", taken, named, had, got)
			}
			if !taken {
				wantErr(t, c.ip(other, cidr, had), ipam.ErrAddressInUse, "vm", c.name(back))
			}
			c.check()
		}
	}
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
