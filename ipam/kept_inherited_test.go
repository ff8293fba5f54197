package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/wire"
)

// rebuilt is a cluster whose last host has web, at an address that is kept for it, and
// then loses its database. list is what the engine there has.
func rebuilt(t *testing.T, renamed string) (c *lockstep, kept netip.Addr, web *ipam.AddressRequest, list func(...ipam.InventoryEndpoint) *ipam.Inventory, inherited func() bool) {
	t.Helper()
	c = newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
		}
	})
	cidr := prefix("10.50.0.0/24")
	list = func(es ...ipam.InventoryEndpoint) *ipam.Inventory {
		return &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(cidr.String(), es...)}}
	}
	c.found()
	for range 3 {
		c.wait(2 * time.Second)
		for i := range c.peers {
			c.call(i, list())
		}
	}
	kept = address("10.50.0.200")
	if err := c.ask(0, keep(kept.String(), "web")).Err; err != nil {
		t.Fatal(err)
	}
	web = &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "web"}
	if r := c.ask(2, web); r.Err != nil || r.Address.Address.Addr() != kept {
		t.Fatal(r.Address, r.Err)
	}
	for _, name := range []string{"web", renamed} {
		c.wait(30 * time.Second)
		c.call(2, list(listed(kept.String(), name, 9)))
	}
	wantErr(t, c.ask(1, web).Err, ipam.ErrAddressInUse, renamed)
	before := c.rebuild(2)
	return c, kept, web, list, func() bool {
		g := c.peers[2].machine.State().Gone(before)
		return g != nil && g.Forgotten
	}
}

// A host without its database takes over an address that is kept for a name, and in
// use. The engine was asked before that, and answers after it.
func TestKeptIsInheritedWhileTheEngineLists(t *testing.T) {
	c, kept, web, list, inherited := rebuilt(t, "web")
	for !inherited() {
		l := list(listed(kept.String(), "web", 9))
		l.After = c.mark(2)
		for range 20 { // the engine takes a moment
			if c.wait(50 * time.Millisecond); inherited() {
				break
			}
		}
		for i, l := range []*ipam.Inventory{list(), list(), l} {
			c.call(i, l)
		}
	}
	if r := c.ask(1, web); r.Err == nil && r.Address.Address.Addr() == kept {
		t.Errorf("%v is in use by web on host-2, and went to web on host-1", kept)
	}
}

// The same of a container that was renamed meanwhile.
func TestKeptIsInheritedWithARenamedContainer(t *testing.T) {
	c, kept, web, list, _ := rebuilt(t, "web-old")
	for range 40 {
		c.wait(time.Second)
		for i, l := range []*ipam.Inventory{list(), list(), list(listed(kept.String(), "web-old", 9))} {
			c.call(i, l)
		}
	}
	if r := c.ask(1, web); r.Err == nil && r.Address.Address.Addr() == kept {
		t.Errorf("%v is in use by web-old on host-2, and went to web on host-1", kept)
	}
}

// An address waits for its name on a host that starts: it is no auxiliary address of a
// network that is made just then.
func TestKeptWaitsWhileAHostStarts(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr, kept := prefix("10.60.0.0/24"), address("10.60.0.201")
	n := c.network(1, cidr)
	c.ask(1, keep(kept.String(), "web"))
	if r := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}); r.Err != nil || r.Address.Address.Addr() != kept {
		t.Fatal(r.Address, r.Err)
	}
	c.ask(1, &ipam.AddressRelease{Network: n, Address: kept})
	c.start(1)
	call := c.call(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: kept})
	if r, ok := c.peers[1].replies[call]; ok {
		t.Errorf("it is answered with %v, %v", r.Address.Address, r.Err)
	}
}

// laid is a cluster with a pool on the LAN on which host-1 has an address itself, its
// network there is gone, and an address of a container rests.
func laid(t *testing.T) (c *lockstep, cidr netip.Prefix, own netip.Addr) {
	t.Helper()
	c = newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr = prefix("192.168.50.0/24")
	n := c.network(1, cidr)
	for r := range c.peers[0].machine.State().PoolOf(cidr).Ring.OwnedBy(c.peers[1].machine.Self()) {
		own = netip.AddrFrom4([4]byte{192, 168, 50, byte(r.Start + 3)})
	}
	c.ask(1, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
	r := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"})
	c.ask(1, &ipam.AddressRelease{Network: n, Address: r.Address.Address.Addr()})
	c.ask(1, &ipam.PoolRelease{Network: n})
	return c, cidr, own
}

// A host that has an address of a pool itself leaves all the same.
func TestLeavesWithAnAddressOfItsOwn(t *testing.T) {
	c, _, own := laid(t)
	c.call(1, &ipam.LeaveRequest{})
	left := func() bool { return c.status(1).State == ipam.Left }
	for i := 0; i < 120 && !left(); i++ {
		c.wait(30 * time.Second)
		c.call(1, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
	}
	if !left() {
		t.Errorf("after an hour it is %s", c.status(1).State)
	}
}

// A host that drains never hands out the address that it has itself.
func TestDrainsWithAnAddressOfItsOwn(t *testing.T) {
	c, cidr, own := laid(t)
	if err := c.ask(1, &ipam.DrainRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	c.wait(10 * time.Second)
	n := c.network(1, cidr)
	for _, name := range []string{"web", "db"} {
		if r := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name}); r.Err == nil && r.Address.Address.Addr() == own {
			t.Errorf("%s has %v, which is the host's own", name, own)
		}
	}
}

// A host that drains is cut off, and its containers are made anew.
func TestKeptOnAHostThatDrainsCutOff(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	n := local(prefix("10.50.0.0/24"))
	run := func(name string) ipam.Reply {
		return c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name})
	}
	web, db := run("web").Address.Address.Addr(), run("db").Address.Address.Addr()
	if err := c.ask(1, keep(web.String(), "web")).Err; err != nil {
		t.Fatal(err)
	}
	if err := c.ask(1, &ipam.DrainRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	c.wait(5 * time.Second)
	c.die(0, 2)
	c.ask(1, &ipam.AddressRelease{Network: n, Address: web})
	c.ask(1, &ipam.AddressRelease{Network: n, Address: db})
	c.ask(1, &ipam.PoolRelease{Network: n})
	c.wait(20 * time.Second)
	c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool})
	for _, name := range []string{"a", "b"} {
		if r := run(name); r.Err == nil && r.Address.Address.Addr() == web {
			t.Errorf("%v is kept for web, and went to %s", web, name)
		}
	}
}

// A pool is left while a decision about one of its addresses is under way.
func TestKeptInAPoolThatIsLeft(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	n := local(cidr)
	web := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}).Address.Address.Addr()
	if err := c.ask(1, keep(web.String(), "web")).Err; err != nil {
		t.Fatal(err)
	}
	c.ask(1, &ipam.AddressRelease{Network: n, Address: web})
	for _, i := range []int{1, 2} {
		c.ask(i, &ipam.PoolRelease{Network: n})
	}
	c.wait(5 * time.Second)
	c.lose = func(f flight) bool { // nothing is decided for a while
		switch f.frame.Body.(type) {
		case wire.Ask, wire.Answer:
			return false
		}
		return true
	}
	c.call(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Address: web.Next().Next()})
	c.wait(100 * time.Millisecond)
	c.call(0, &ipam.PoolRemoval{Pool: cidr.String()})
	c.wait(100 * time.Millisecond)
	c.call(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
	for range 40 {
		call := c.call(1, docker(cidr))
		if r, ok := c.peers[1].replies[call]; ok && r.Err == nil && r.Address.Address.Addr() == web {
			t.Errorf("%v is kept for web, and went to another", web)
		}
	}
}

// Somebody has what is kept back ended, which is not decided for a while, and wants it
// kept back after all.
func TestReservedAgainWhileItsEndIsUndecided(t *testing.T) {
	for what, q := range map[string]*ipam.ReserveRequest{"kept": keep("10.50.0.200", "web"), "excluded": exclude("10.50.0.200", "10.50.0.203")} {
		c, cidr := lab(t)
		if err := c.ask(0, q).Err; err != nil {
			t.Fatal(err)
		}
		c.run(time.Minute, c.agreed)
		c.silence(1, 2)
		if err := c.ask(0, unreserve(q.First.String(), q.Last.String(), q.Kind)).Err; err == nil {
			t.Fatal("it was ended without a majority")
		}
		again := c.ask(0, q).Err
		c.silence()
		c.heal()
		c.wait(10 * time.Second)
		if err := c.ip(1, cidr, q.First); again == nil && err == nil {
			t.Errorf("%s: that was said to be so, and %v went to another", what, q.First)
		}
	}
}

// While a host starts, a network is made like one that it has, and is refused by its
// driver: the one that it has stays.
func TestNetworkIsRefusedWhileAHostStarts(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/24")
	request := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}
	n := c.ask(1, request).Pool.Network
	gateway := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.wait(2 * time.Second)
	c.start(1)
	c.ask(1, request)
	c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	c.ask(1, &ipam.AddressRelease{Network: n, Address: gateway})
	c.ask(1, &ipam.PoolRelease{Network: n})
	c.wait(5 * time.Second)
	if err := c.ip(1, cidr, gateway); err == nil {
		t.Errorf("%v, the gateway of a network that lives, went to a container", gateway)
	}
	if p := c.peers[1].machine.State().PoolOf(cidr); !p.UsedBy(c.peers[1].machine.Self()) {
		t.Error("the host has a network on the pool, and says that it has none")
	}
}

// A host says that it uses a pool no more, restarts before that is decided, and makes
// a network on the pool.
func TestNetworkAfterARestartWhileItsPoolGoes(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/30")
	c.ask(0, &ipam.PoolRelease{Network: c.network(0, cidr, "10.60.0.2")})
	y, z := c.order()[1], c.order()[2]
	n := c.network(y, cidr)
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	late := false
	c.lose = func(f flight) bool {
		switch f.frame.Body.(type) {
		case wire.Submit, wire.Hello, wire.Welcome:
			return false
		}
		return late
	}
	c.call(y, &ipam.PoolRelease{Network: n})
	c.wait(59 * time.Second)
	late = true
	c.wait(3 * time.Second)
	c.start(y)
	call := c.call(y, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst})
	c.wait(5 * time.Second)
	late = false
	c.run(time.Minute, func() bool { return !c.peers[z].machine.State().PoolOf(cidr).UsedBy(c.peers[y].machine.Self()) })
	removed := c.ask(z, &ipam.PoolRemoval{Pool: cidr.String()}).Err == nil
	if r, ok := c.peers[y].replies[call]; ok && r.Err == nil && removed {
		t.Error("a pool was removed under the network of another host")
	}
}

// A host without its database has taken over the use of a pool, and its engine has
// listed nothing yet.
func TestPoolIsRemovedBeforeTheList(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.Machine = true, uint64(i+1)
		}
	})
	c.found()
	for range 3 {
		c.wait(2 * time.Second)
		for i := range c.peers {
			c.call(i, &ipam.Inventory{Networks: []ipam.InventoryNetwork{on("10.50.0.0/24")}})
		}
	}
	cidr := prefix("10.60.0.0/30")
	c.network(2, cidr, "10.60.0.2")
	c.wait(5 * time.Second)
	before := c.rebuild(2)
	m := c.peers[2].machine
	c.run(2*time.Minute, func() bool {
		g := m.State().Gone(before)
		return g != nil && g.Forgotten
	})
	if err := c.ask(2, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err == nil {
		t.Error("a pool was removed before the engine could tell that it has a network on it")
	}
}

// What is asked for while the opposite is not decided waits for that.
func TestUndrainedWhileTheDrainIsUndecided(t *testing.T) {
	c, _ := lab(t)
	c.silence(1, 2)
	if err := c.ask(0, &ipam.DrainRequest{}).Err; err == nil {
		t.Fatal("it drains without a majority")
	}
	undone := c.ask(0, &ipam.DrainRequest{Undo: true}).Err
	c.silence()
	c.heal()
	c.wait(10 * time.Second)
	if st := c.status(0).State; undone == nil && st == ipam.Leaving {
		t.Error("that was undone, and it drains")
	}
}

// The same of what is excluded, and ended before that is decided.
func TestEndedWhileItsBeginningIsUndecided(t *testing.T) {
	c, _ := lab(t)
	q := exclude("10.50.0.200", "10.50.0.203")
	c.silence(1, 2)
	if err := c.ask(0, q).Err; err == nil {
		t.Fatal("it was excluded without a majority")
	}
	ended := c.ask(0, unreserve(q.First.String(), q.Last.String(), q.Kind)).Err
	c.silence()
	c.heal()
	c.wait(10 * time.Second)
	if list := reservations(t, c.peers[1].machine); ended == nil && list != "" {
		t.Errorf("that was ended, and there is %s", list)
	}
}

// A name of an IPv6 pool is none for an IPv4 network.
func TestNameOfTheOtherFamily(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	if err := h.Call(&ipam.PoolCreation{CIDR: prefix("fd00:1::/64"), Name: "lab"}).Err; err != nil {
		t.Fatal(err)
	}
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, PoolName: "lab"})
	wantErr(t, r.Err, ipam.ErrBadRequest, "lab", "fd00:1::/64")
}

// A second network with a gateway for all hosts is asked for while the host starts:
// it does not get this host's own.
func TestSharedGatewayWhileAHostStarts(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/24")
	shared := c.network(1, cidr)
	own := c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Pool.Network
	a := c.ask(1, &ipam.AddressRequest{Network: own, Purpose: ipam.ForGateway}).Address.Address
	c.start(1)
	ask := func(n ipam.Network) uint64 {
		return c.call(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	}
	first, second := ask(shared), ask(own)
	c.wait(10 * time.Second)
	if r := c.peers[1].replies[second]; r.Err != nil || r.Address.Address != a {
		t.Errorf("the host's own gateway: %v, %v, want %v", r.Address.Address, r.Err, a)
	}
	if r := c.peers[1].replies[first]; r.Err != nil || r.Address.Address.Addr() != address("10.60.0.1") {
		t.Errorf("the gateway of all hosts: %v, %v", r.Address.Address, r.Err)
	}
}

// A host has a pool removed that nobody uses, and is cut off before that is decided.
// What is excluded from it on another host meanwhile stays excluded.
func TestExcludedInAPoolThatIsRemoved(t *testing.T) {
	cidr, wider := prefix("10.60.0.0/28"), prefix("10.60.0.0/27")
	for what, remove := range map[string]ipam.Request{
		"it makes room":   &ipam.PoolRequest{Space: ipam.Local, Pool: wider},
		"ringlet pool rm": &ipam.PoolRemoval{Pool: cidr.String()},
	} {
		t.Run(what, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			order := c.order()
			other, y := order[0], order[2]
			if err := c.ask(y, &ipam.PoolRelease{Network: c.network(y, cidr)}).Err; err != nil {
				t.Fatal(err)
			}
			knows := what == "ringlet pool rm" // of something that would go with the pool
			if knows {
				if err := c.ask(other, exclude("10.60.0.3", "10.60.0.3")).Err; err != nil {
					t.Fatal(err)
				}
			}
			c.run(time.Minute, c.agreed)
			late := true
			c.lose = func(f flight) bool {
				_, submits := f.frame.Body.(wire.Submit)
				return late && submits && f.from == y
			}
			c.call(y, remove)
			c.wait(200 * time.Millisecond)
			c.silence(y)
			c.wait(30 * time.Second)
			if err := c.ask(other, exclude("10.60.0.12", "10.60.0.12")).Err; err != nil {
				t.Fatal(err)
			}
			c.silence()
			late = false
			c.heal()
			c.wait(time.Minute)
			p := c.peers[other].machine.State().PoolOf(cidr)
			if p == nil {
				t.Fatal("10.60.0.12 was excluded, and is not any more")
			}
			if r := p.ReservationAt(3); knows && r == nil {
				t.Error("10.60.0.3 was excluded, and is not any more, though its pool stays")
			}
			wantErr(t, c.ip(other, cidr, address("10.60.0.12")), ipam.ErrAddressReserved, "excluded")
			wantErr(t, c.ask(y, &ipam.PoolRequest{Space: ipam.Local, Pool: wider}).Err, ipam.ErrPoolOverlap, cidr.String())
			if err := c.ask(y, &ipam.PoolRelease{Network: local(cidr)}).Err; err != nil {
				t.Fatal(err)
			}
			if err := c.ask(y, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
				t.Errorf("removed now that the operator knows: %v", err)
			}
			if p := c.peers[y].machine.State().PoolOf(cidr); p != nil {
				t.Errorf("pool %v stands still", p.CIDR)
			}
		})
	}
}

// A host that is cut off finds excluded already, and kept for that name, what it knows
// of a pool that was removed meanwhile, with all that was kept back there, and made
// anew. It does not say so before it knows of that.
func TestReservedAlreadyInAPoolThatIsNoMore(t *testing.T) {
	cidr := prefix("10.60.0.0/28")
	for what, request := range map[string]*ipam.ReserveRequest{
		"excluded":        exclude("10.60.0.3", "10.60.0.5"),
		"a part":          exclude("10.60.0.4", "10.60.0.4"),
		"kept for a name": keep("10.60.0.9", "web"),
	} {
		t.Run(what, func(t *testing.T) {
			c := newLockstepWith(t, 3, func(c *lockstep) {
				for _, p := range c.peers {
					p.cfg.Deal = chronicle.DealNone
				}
			})
			c.found()
			order := c.order()
			other, y := order[0], order[2]
			again := func() {
				if err := c.ask(other, &ipam.PoolCreation{CIDR: cidr}).Err; err != nil {
					t.Fatal(err)
				}
			}
			again()
			c.run(time.Minute, c.agreed)
			for _, q := range []*ipam.ReserveRequest{exclude("10.60.0.3", "10.60.0.5"), keep("10.60.0.9", "web")} {
				if err := c.ask(y, q).Err; err != nil {
					t.Fatal(err)
				}
			}
			c.run(time.Minute, c.agreed)
			if err := c.ask(y, request).Err; err != nil {
				t.Errorf("once more: %v", err)
			}
			c.silence(y)
			if err := c.ask(other, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
				t.Fatal(err)
			}
			again()
			call := c.call(y, request)
			c.wait(5 * time.Second)
			if r, answered := c.peers[y].replies[call]; answered {
				t.Errorf("answered while it was cut off: %+v", r)
			}
			c.silence()
			c.heal()
			c.run(20*time.Second, func() bool { _, answered := c.peers[y].replies[call]; return answered })
			if err := c.peers[y].replies[call].Err; err != nil {
				t.Error(err)
			}
			c.run(time.Minute, c.agreed)
			wantErr(t, c.ip(other, cidr, request.First), ipam.ErrAddressReserved)
		})
	}
}

// To be sure costs one decision: none where something was decided for the call anyway,
// or where there is nobody else.
func TestWhatItCostsToBeSure(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Deal = chronicle.DealNone
		}
	})
	c.found()
	alone := machinetest.NewHost(t, ipam.Config{})
	for what, of := range map[string]struct {
		ask   func(ipam.Request) error
		slot  func() uint64
		again uint64 // slots
	}{
		"three hosts": {
			func(q ipam.Request) error { c.wait(10 * time.Second); return c.ask(0, q).Err },
			func() uint64 { return c.peers[0].machine.State().Slot }, 1,
		},
		"one": {
			func(q ipam.Request) error { return alone.Call(q).Err },
			func() uint64 { return alone.Machine().State().Slot }, 0,
		},
	} {
		if err := of.ask(&ipam.PoolCreation{CIDR: prefix("10.60.0.0/28")}); err != nil {
			t.Fatal(err)
		}
		for _, q := range []*ipam.ReserveRequest{exclude("10.60.0.3", "10.60.0.5"), exclude("10.60.0.2", "10.60.0.7"), keep("10.60.0.9", "web")} {
			for times, want := range []uint64{1, of.again, of.again} {
				before := of.slot()
				if err := of.ask(q); err != nil {
					t.Fatal(err)
				}
				if slots := of.slot() - before; slots != want {
					t.Errorf("%s: %v, asked for %d times before, took %d slots, want %d", what, q.Kind, times, slots, want)
				}
			}
		}
	}
}

// An address is kept for a name, and something else on the network has it. It cannot be
// excluded, nor can what lies around it in one piece: that is done with one decision, and
// the rest is told.
func TestExcludeAroundAStrangerOnWhatIsKept(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	if err := c.ask(0, keep("10.50.0.200", "web")).Err; err != nil {
		t.Fatal(err)
	}
	g := c.ask(1, &ipam.AddressRequest{Network: local(prefix("10.50.0.0/24")), Purpose: ipam.ForContainer, Name: "web"})
	c.ask(1, &ipam.Stranger{Ticket: g.Address.Ticket, MAC: ipam.MAC{2, 9}})
	before := c.peers[0].machine.State().Slot
	r := c.ask(1, exclude("10.50.0.199", "10.50.0.201"))
	if r.Err != nil || r.Reserving.Addresses != 2 || len(r.Reserving.Collisions) != 1 || r.Reserving.Collisions[0].First != address("10.50.0.200") {
		t.Errorf("got %+v, %v", r.Reserving, r.Err)
	}
	if n := c.peers[0].machine.State().Slot - before; n > 5 {
		t.Errorf("it took %d slots", n)
	}
}

// An address that is kept for a name is in the space of the host on which that one runs,
// and the others tell so: who asks them would else take it for unused.
func TestKeptIsToldToBeElsewhere(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	kept := address("10.50.0.200")
	if err := c.ask(0, keep(kept.String(), "web")).Err; err != nil {
		t.Fatal(err)
	}
	tell := func(peer, verdict string) {
		t.Helper()
		who, err := c.peers[0].machine.Who(c.now, kept)
		if err != nil || who.State != "reserved" || who.Peer != peer {
			t.Errorf("who says %+v, %v, want it to be at %q", who, err, peer)
		}
		if e, err := c.peers[0].machine.Explain(c.now, kept); err != nil || e.Verdict != verdict {
			t.Errorf("explained as %q, %v, want %q", e.Verdict, err, verdict)
		}
	}
	tell("", "is reserved for web")
	q := docker(prefix("10.50.0.0/24"))
	q.Name = "web"
	if r := c.ask(2, q); r.Err != nil || r.Address.Address.Addr() != kept {
		t.Fatal(r.Address, r.Err)
	}
	c.run(time.Minute, c.agreed)
	tell("host-2", "is reserved for web, and is in a range of host-2")
}

// What an operator has ended on one host does not come back since one on another, which has not heard of it, asks
// for something else of that range.
func TestEndedWhileAnotherFindsItReserved(t *testing.T) {
	at := "10.50.0.250"
	for what, tt := range map[string]struct {
		is, ends, asks ipam.Request
		left           string
	}{
		"excluded, and a part is asked for":      {exclude("10.50.0.240", at), unreserve("10.50.0.240", at, chronicle.KindExcluded), exclude(at, at), "excluded"},
		"kept for a name, and is to be excluded": {keep(at, "web"), unreserve(at, at, chronicle.KindKeptForName), exclude(at, at), ""},
	} {
		t.Run(what, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			if r := c.ask(0, tt.is); r.Err != nil {
				t.Fatal(r.Err)
			}
			c.run(time.Minute, c.agreed)
			c.silence(2)
			if r := c.ask(0, tt.ends); r.Err != nil {
				t.Fatal(r.Err)
			}
			call := c.call(2, tt.asks)
			c.silence()
			c.run(time.Minute, func() bool { _, answered := c.peers[2].replies[call]; return answered && c.agreed() })
			list, err := c.peers[0].machine.Reservations("10.50.0.0/24")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list[1 : len(list)-1] { // without the network's address and the broadcast's
				if r.Kind != tt.left || r.First != address(at) {
					t.Errorf("%v-%v is %s again (%s)", r.First, r.Last, r.Kind, r.Note)
				}
			}
		})
	}
}
