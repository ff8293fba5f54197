package ipam_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/wire"
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
				c.call(i, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(a, 24)}})
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

// A network is asked for whose subnet is wider than two pools. Nobody uses the first,
// in which a host has an address itself; the second is in use, so the request is
// refused. The host keeps its address, whoever asked.
func TestHostAddressInAPoolBesideOneInUse(t *testing.T) {
	low, high, both := prefix("10.60.0.0/25"), prefix("10.60.0.128/25"), prefix("10.60.0.0/24")
	for asker := range 3 {
		for user := range 3 {
			c := newLockstep(t, 3)
			c.run(time.Minute, c.agreed)
			n := c.network(2, low)
			c.network(user, high)
			own := netip.Addr{}
			for r := range c.peers[2].machine.State().PoolOf(low).Ring.OwnedBy(c.peers[2].machine.Self()) {
				own = addr.Nth(low, r.Start+3)
			}
			c.ask(2, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
			c.ask(2, &ipam.PoolRelease{Network: n})
			c.wait(3 * time.Minute)
			if c.ask(asker, &ipam.PoolRequest{Space: ipam.Local, Pool: both}).Err == nil {
				t.Fatal("it is granted")
			}
			c.wait(5 * time.Second)
			for _, i := range []int{0, 2} {
				wantErr(t, c.ip(i, low, own), ipam.ErrAddressInUse, "on an interface")
			}
		}
	}
}

// The same on one host, where it was freed at once, and with what is not the host's.
func TestOthersAddressesInAPoolBesideOneInUse(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.60.0.0/25")
	network(t, h, "10.60.0.128/25")
	hostHas(h, "10.60.0.20/24")
	stranger := mustAsk(t, h, n, "web", 1, "")
	h.Call(&ipam.Stranger{Ticket: stranger.Ticket, MAC: ipam.MAC{2, 9}})
	h.Call(&ipam.PoolRelease{Network: n})
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/24")}).Err, ipam.ErrPoolOverlap, "10.60.0.128/25")
	n = network(t, h, "10.60.0.0/25")
	for _, a := range []string{"10.60.0.20", stranger.Address.Addr().String()} {
		wantErr(t, claim(h, n, a, "db"), ipam.ErrAddressInUse)
	}
}

// Containers start right after somebody has made a network on the LAN. No address that
// another host has itself is handed out to one of them, whoever owns the space around it.
func TestContainersRightBehindANetworkOnTheLAN(t *testing.T) {
	for maker := range 3 {
		c, own, look := onLAN(t, 3)
		look(5 * time.Second)
		c.network(maker, prefix(homeLAN))
		c.wait(10 * time.Millisecond)
		wantErr(t, c.full(maker, prefix(homeLAN)), ipam.ErrNoAddress)
		if !hostsHave(c, own) {
			t.Errorf("host-%d makes it: a container got the address of a host", maker)
		}
	}
}

// While a pool is about to go another host makes a network on it, at any moment of that.
// Whether the pool stays, or is made anew, its containers get no address that a host has
// itself: those who have given theirs up take it again at once.
func TestNetworkOnALANPoolThatIsRemoved(t *testing.T) {
	stays, anew := 0, 0
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}} {
		for after := range 25 {
			asks, maker := pair[0], pair[1]
			c, own, look := onLAN(t, 3)
			if err := c.ask(0, &ipam.PoolRelease{Network: c.network(0, prefix(homeLAN))}).Err; err != nil {
				t.Fatal(err)
			}
			look(5 * time.Second)
			first := c.peers[0].machine.State().PoolOf(prefix(homeLAN)).Key
			removal := c.call(asks, &ipam.PoolRemoval{Pool: homeLAN})
			c.wait(time.Duration(after) * time.Millisecond)
			c.network(maker, prefix(homeLAN))
			var want error
			if c.peers[maker].machine.State().PoolOf(prefix(homeLAN)).Key == first {
				stays, want = stays+1, ipam.ErrPoolInUse
			} else {
				anew++
			}
			c.wait(10 * time.Millisecond)
			wantErr(t, c.full(maker, prefix(homeLAN)), ipam.ErrNoAddress)
			if !hostsHave(c, own) {
				t.Errorf("host-%d removes it, host-%d makes a network after %d ms: a container got the address of a host", asks, maker, after)
			}
			c.run(time.Minute, func() bool { _, ok := c.peers[asks].replies[removal]; return ok })
			if err := c.peers[asks].replies[removal].Err; !errors.Is(err, want) {
				t.Errorf("host-%d removes it, host-%d makes a network after %d ms: %v, want %v", asks, maker, after, err, want)
			}
		}
	}
	if stays == 0 || anew == 0 {
		t.Errorf("the pool stays %d times, and is made anew %d times: a moment is missing", stays, anew)
	}
}

// An address comes to an interface of the host that a container has, or another holder. Once that has
// given it up it is the host's alone, and goes to nobody again, not even for the moment until the
// host's interfaces are looked at anew.
func TestHostAddressThatAContainerHad(t *testing.T) {
	const a = "10.60.0.20"
	for what, had := range map[string]struct {
		request ipam.Request
		end     func(h *machinetest.Host, n ipam.Network, r ipam.Reply)
	}{
		"it stops": {
			&ipam.AddressRequest{Network: plain("10.60.0.0/24"), Purpose: ipam.ForContainer, Name: "web", Address: address(a)},
			func(h *machinetest.Host, n ipam.Network, _ ipam.Reply) { release(h, n, address(a)) },
		},
		"the answer is not delivered": {
			&ipam.AddressRequest{Network: plain("10.60.0.0/24"), Purpose: ipam.ForContainer, Name: "web", Address: address(a)},
			func(h *machinetest.Host, _ ipam.Network, r ipam.Reply) {
				h.Call(&ipam.Withdrawal{Ticket: r.Address.Ticket})
			},
		},
		"it is freed": {
			&ipam.ClientRequest{Pool: "10.60.0.0/24", ID: "web", Address: address(a)},
			func(h *machinetest.Host, _ ipam.Network, _ ipam.Reply) { h.Call(&ipam.FreeRequest{ID: "web"}) },
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := machinetest.NewHost(t, ipam.Config{})
			n := network(t, h, "10.60.0.0/24")
			r := h.Call(had.request)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			hostHas(h, a+"/24")
			had.end(h, n, r)
			wantErr(t, claim(h, n, a, "web"), ipam.ErrAddressInUse, "interface")
			if s := h.Machine().Status(h.Now); s.Verdict != ipam.Fine {
				t.Errorf("problems: %+v", s.Problems)
			}
			if last := h.Trail[len(h.Trail)-1]; last.Kind != ipam.NoteGranted || last.Use.Kind != "host" {
				t.Errorf("the last that who reads the notes hears of %s is %+v", a, last)
			}
			h.CheckDisk()
		})
	}
}

// A host makes a network on the LAN of all, or has some of it excluded no more, and a container wants
// the address that another host has itself, as soon as that one can have heard of it: wherever
// the address lies, in the space of whom, and whenever that host looks after its pools next.
func TestHostAddressInAPoolThatIsNew(t *testing.T) {
	for _, own := range []string{"192.168.1.5", "192.168.1.40", "192.168.1.70", "192.168.1.200"} {
		for _, excluded := range []bool{false, true} {
			for phase := time.Duration(0); phase < time.Second; phase += 200 * time.Millisecond {
				c := newLockstep(t, 3)
				c.run(time.Minute, c.agreed)
				c.wait(phase)
				c.call(2, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(address(own), 24)}})
				c.network(0, prefix(homeLAN))
				if excluded {
					c.ask(2, exclude(own, own))
					c.ask(0, &ipam.UnreserveRequest{First: address(own), Last: address(own), Kind: chronicle.KindExcluded})
				}
				c.wait(20 * time.Millisecond)
				if err := c.ip(0, prefix(homeLAN), address(own)); err == nil {
					t.Errorf("%s, excluded before %t, after %v: a container has what host-2 has itself", own, excluded, phase)
				}
			}
		}
	}
}

// A subnet overlaps a pool in which the host's own address is all that is held: the pool can
// be removed, and that is what the refusal says.
func TestOverlapWithAPoolOfTheHostAlone(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	if err := h.Call(&ipam.PoolCreation{CIDR: prefix(homeLAN)}).Err; err != nil {
		t.Fatal(err)
	}
	hostHas(h, "192.168.1.10/24")
	wider := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("192.168.0.0/16")}
	wantErr(t, h.Call(wider).Err, ipam.ErrPoolOverlap, "remove it first with ringlet pool rm 192.168.1.0/24")
	if err := h.Call(&ipam.PoolRemoval{Pool: homeLAN}).Err; err != nil {
		t.Fatal(err)
	}
	if err := h.Call(wider).Err; err != nil {
		t.Error(err)
	}
}

// So it is where the container went without a release, which the engine's lists tell: it has not
// the address again once one lacks it, nor has anybody when they have it freed.
func TestHostAddressThatALostContainerHad(t *testing.T) {
	const a = "10.60.0.20"
	for _, lists := range []int{1, 2} {
		h := withSocket(t)
		n := network(t, h, "10.60.0.0/24")
		n.Sticky = ipam.StickyName
		look(h, on("10.60.0.0/24"))
		mustAsk(t, h, n, "web", 7, a)
		hostHas(h, a+"/24")
		look(h, on("10.60.0.0/24", listed(a, "web", 7)))
		for range lists {
			h.Now = h.Now.Add(time.Hour)
			look(h, on("10.60.0.0/24"))
		}
		if g := mustAsk(t, h, n, "web", 7, ""); g.Address.Addr() == address(a) {
			t.Errorf("%d lists lack it: web has what the host has", lists)
		}
		wantErr(t, claim(h, n, a, "web"), ipam.ErrAddressInUse, "interface")
		h.CheckDisk()
	}
}

// So it is where the space of a host is free again in which another one's own address lies, since
// it was forgotten.
func TestHostAddressInSpaceOfAForgottenHost(t *testing.T) {
	cidr := prefix(homeLAN)
	for phase := time.Duration(0); phase < time.Second; phase += 200 * time.Millisecond {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		c.network(0, cidr)
		lost := c.order()[2]
		var own netip.Addr
		for r := range c.peers[0].machine.State().PoolOf(cidr).Ring.OwnedBy(c.peers[lost].machine.Self()) {
			own = addr.Nth(cidr, r.Start+1)
		}
		has, takes := (lost+1)%3, (lost+2)%3
		c.die(lost)
		c.call(has, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
		c.wait(phase)
		c.giveUp(takes, lost)
		c.wait(20 * time.Millisecond)
		if err := c.ip(takes, cidr, own); err == nil {
			t.Errorf("after %v: a container has what %s has itself", phase, c.name(has))
		}
	}
}

// So it is where the host was too far behind to be told of the pool, and got the state as a whole.
func TestHostAddressInAPoolOfASnapshot(t *testing.T) {
	cidr, own := prefix(homeLAN), address("192.168.1.200")
	for phase := time.Duration(0); phase < time.Second; phase += 200 * time.Millisecond {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		has := c.order()[2]
		takes := (has + 1) % 3
		c.call(has, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
		c.silence(has)
		c.network(takes, cidr)
		c.network(takes, prefix("10.60.0.0/24"))
		c.forgetSlots(has)
		c.wait(5*time.Second + phase)
		c.heal()
		c.say(has, takes, wire.Beat{}, func(*wire.Header) {})
		c.run(time.Second, func() bool { return c.peers[has].machine.State().PoolOf(cidr) != nil })
		c.wait(20 * time.Millisecond)
		if err := c.ip(takes, cidr, own); err == nil {
			t.Errorf("after %v: a container has what %s has itself", phase, c.name(has))
		}
	}
}

// Where there are many pools, hosts and networks, somebody makes a network all the time on a pool that
// others have bridges on. They look at that pool then, and not after all that they have.
func TestNetworksOfOthersCostNoTending(t *testing.T) {
	c, own, _ := onLAN(t, 3)
	for i, a := range own {
		c.call(i, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(a, 24)}})
	}
	c.network(0, prefix(homeLAN))
	last := c.peers[2].machine.TendedAt()
	c.run(time.Minute, func() bool { return c.peers[2].machine.TendedAt() != last })
	last = c.peers[2].machine.TendedAt()
	c.call(1, &ipam.PoolRequest{Space: ipam.Local, Pool: prefix(homeLAN)})
	c.run(time.Second, func() bool { return len(c.peers[2].machine.State().PoolOf(prefix(homeLAN)).Users) == 2 })
	if at := c.peers[2].machine.TendedAt(); at != last {
		t.Errorf("%s has looked after all of its pools after %v", c.name(2), time.Duration(at-last))
	}
}

// An address that is kept for a container comes to an interface of a host, while the container is away or
// after it was there. It is the host's: the container gets it nowhere, until the host has it no more.
func TestHostAddressThatIsKeptForAName(t *testing.T) {
	kept := address("192.168.1.77")
	for _, before := range []bool{false, true} {
		c, own, look := onLAN(t, 3)
		c.network(0, prefix(homeLAN))
		c.network(1, prefix(homeLAN))
		look(2 * time.Second)
		if err := c.ask(0, &ipam.ReserveRequest{First: kept, Last: kept, Kind: chronicle.KindKeptForName, Note: "web"}).Err; err != nil {
			t.Fatal(err)
		}
		web := func(i int) (netip.Addr, error) {
			r := c.ask(i, &ipam.AddressRequest{Network: local(prefix(homeLAN)), Purpose: ipam.ForContainer, Name: "web"})
			return r.Address.Address.Addr(), r.Err
		}
		if before {
			if a, err := web(1); err != nil || a != kept {
				t.Fatal(a, err)
			}
		}
		other := own[1]
		own[1] = kept
		look(2 * time.Second)
		if before {
			c.ask(1, &ipam.AddressRelease{Network: local(prefix(homeLAN)), Address: kept})
		}
		look(2 * time.Second)
		for i := range 2 {
			a, err := web(i)
			wantErr(t, err, ipam.ErrAddressInUse, "interface")
			if a.IsValid() {
				t.Errorf("before %t: web has %v on host-%d, which is host-1's own", before, a, i)
			}
		}
		c.start(1)
		look(time.Minute)
		if _, err := web(0); err == nil {
			t.Errorf("before %t: web has what is host-1's own after a restart", before)
		}
		c.ask(1, &ipam.DrainRequest{})
		look(10 * time.Second)
		at := c.peers[1].machine.State().Slot
		look(time.Minute)
		if slots := c.peers[1].machine.State().Slot - at; slots > 5 {
			t.Errorf("before %t: host-1 drains, and takes and gives the address in %d slots", before, slots)
		}
		c.ask(1, &ipam.DrainRequest{Undo: true})
		own[1] = other
		look(10 * time.Minute)
		if a, err := web(0); err != nil || a != kept {
			t.Errorf("before %t: host-1 has another address, and web has %v, %v", before, a, err)
		}
		for i := range c.peers {
			for _, err := range c.peers[i].machine.Check(c.now) {
				t.Error(err)
			}
		}
	}
}

// One host has an address on the LAN itself. It is the router of the others' containers, or is named as auxiliary address
// as other devices are, in a network on whatever host, whether or not that host's peer holds the address by then.
func TestAddressOfAHostThatANetworkNames(t *testing.T) {
	for what, purpose := range map[string]ipam.Purpose{"--gateway": ipam.ForGateway, "--aux-address": ipam.ForUnmarked} {
		for _, i := range []int{0, 2} {
			c := newLockstep(t, 3)
			c.found()
			cidr, own := prefix("10.60.0.0/24"), address("10.60.0.77")
			c.ask(1, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
			n := c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Pool.Network
			c.wait(5 * time.Second)
			if r := c.ask(i, &ipam.AddressRequest{Network: n, Purpose: purpose, Address: own}); r.Err != nil {
				t.Errorf("docker network create %s %v on %s: %v", what, own, c.name(i), r.Err)
			}
			c.wait(5 * time.Second)
			for j := range c.peers {
				wantErr(t, c.ip(j, cidr, own), ipam.ErrAddressReserved)
			}
			c.ask(i, &ipam.PoolRelease{Network: n})
			c.wait(2 * time.Minute)
			for j := range c.peers {
				wantErr(t, c.ip(j, cidr, own), ipam.ErrAddressInUse, "on an interface")
			}
			c.check()
		}
	}
}

// A host has an address of its own that a container of it has, too, as a new database finds. When the host has another one, that is
// the container's, and nobody else's, also before the engine lists it again.
func TestOwnAddressThatAContainerHasToo(t *testing.T) {
	h := withSocket(t)
	own := netip.MustParsePrefix("10.50.0.9/24")
	web := listed("10.50.0.9", "web", 7)
	see := func(all ...netip.Prefix) {
		h.Now = h.Now.Add(15 * time.Second)
		h.Call(&ipam.HostAddresses{Addresses: all})
	}
	see(own)
	look(h, on("10.50.0.0/24", web))
	see(own)
	look(h, on("10.50.0.0/24", web))
	if s := stateOf(t, h, "10.50.0.9"); s.Kind != "host" {
		t.Fatalf("%+v", s)
	}
	for range 4 {
		see()
	}
	wantErr(t, claim(h, plain("10.50.0.0/24"), "10.50.0.9", "other"), ipam.ErrAddressInUse)
	look(h, on("10.50.0.0/24", web))
	if s := stateOf(t, h, "10.50.0.9"); s.Kind != "container" || s.Name != "web" {
		t.Errorf("%+v", s)
	}
	h.CheckDisk()
}
