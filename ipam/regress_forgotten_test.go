package ipam_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A host is forgotten, the pool of its containers is removed, and it comes back with
// them. Its next network makes the pool anew, and the same share of it may be its own: it
// hands out nothing before its engine has listed what they have, and nothing of that after.
func TestForgottenHostWhosePoolWasRemoved(t *testing.T) {
	for _, remade := range []bool{false, true} {
		c := newAwaiting(t)
		c.run(time.Minute, c.agreed)
		cidr := prefix("10.60.0.0/24")
		back := c.order()[2]
		other := (back + 1) % 3
		var endpoints []ipam.InventoryEndpoint
		look := func() {
			for i := range c.peers {
				inv := &ipam.Inventory{Begun: c.now}
				if i == back && len(endpoints) > 0 {
					inv.Networks = []ipam.InventoryNetwork{on(cidr.String(), endpoints...)}
				}
				c.call(i, inv)
			}
			c.wait(2 * time.Second)
		}
		look()
		look()
		n := c.network(back, cidr)
		used := map[netip.Addr]bool{}
		for mac, name := range []string{"a", "b", "c"} {
			a := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name}).Address.Address.Addr()
			used[a] = true
			endpoints = append(endpoints, listed(a.String(), name, byte(mac+1)))
		}
		c.wait(2 * time.Minute)
		look()
		c.die(back)
		for _, q := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(back)}, &ipam.ForgetRequest{Peer: c.name(back)}, &ipam.PoolRemoval{Pool: cidr.String()}} {
			if err := c.ask(other, q).Err; err != nil {
				t.Fatal(err)
			}
		}
		if remade {
			c.network(other, cidr)
		}
		c.heal()
		c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
		c.run(time.Minute, c.agreed)
		for round := range 2 {
			for k := range 3 {
				r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: string(rune('p' + 3*round + k))})
				if a := r.Address.Address.Addr(); used[a] {
					t.Errorf("%v went to another container", a)
				}
				if round > 0 && r.Err != nil {
					t.Error(r.Err)
				}
			}
			look()
			look()
		}
	}
}

// A host was installed anew under another name, above its containers, so that it does not
// take over what its former self had. That is not forgotten, by whoever asks, as long as
// they run: others would get their addresses.
func TestForgetUnderContainersOfARenamedHost(t *testing.T) {
	c, look := renamed(t)
	look(1)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	look(1)
	for i := range c.peers {
		wantErr(t, c.ask(i, &ipam.ForgetRequest{Peer: "host-2"}).Err, ipam.ErrBadRequest, "renamed", "containers", "first")
	}
	for range 2 {
		c.call(2, lan(c.now, "10.50.0.0/24")) // they are gone
		c.wait(12 * time.Second)
	}
	for i := range c.peers {
		if err := c.ask(i, &ipam.ForgetRequest{Peer: "host-2"}).Err; err != nil {
			t.Error(err)
		}
	}
}

// A host that was forgotten comes back with its containers, and takes space anew. What
// they hold is not of that space: it keeps its stock, tells others what is free in it,
// and starts containers where it is cut off.
func TestStockBesideWhatWasForgotten(t *testing.T) {
	for _, containers := range []int{0, 20} {
		c := newLockstep(t, 3)
		c.found()
		cidr := prefix("10.50.0.0/24")
		for range containers {
			c.ask(2, docker(cidr))
		}
		c.die(2)
		for _, q := range []ipam.Request{&ipam.EvictRequest{Peer: "host-2"}, &ipam.ForgetRequest{Peer: "host-2"}} {
			if err := c.ask(0, q).Err; err != nil {
				t.Fatal(err)
			}
		}
		c.heal()
		c.run(time.Minute, c.agreed)
		c.wait(10 * time.Second)
		if err := c.ask(2, docker(cidr)).Err; err != nil {
			t.Fatal(err)
		}
		c.wait(10 * time.Minute)
		c.silence(2)
		c.wait(20 * time.Second)
		if err := c.ask(2, docker(cidr)).Err; err != nil {
			t.Errorf("with %d containers from before: %v", containers, err)
		}
	}
}

// A host that was forgotten comes back with what it had. It tells since when that is so, as
// its explanation does, and what ends it: there are no containers that could be stopped.
func TestConflictsOfAForgottenHost(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	begun := c.now
	gateway := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForGateway}).Address.Address.Addr()
	vm := c.ask(2, &ipam.ClientRequest{Pool: cidr.String(), ID: "vm"}).Address.Address.Addr()
	ends := map[netip.Addr]string{
		gateway: "remove the networks of this host",
		vm:      "ringlet free --for vm " + vm.String(),
	}
	c.wait(10 * time.Minute)
	c.die(2)
	for _, q := range []ipam.Request{&ipam.EvictRequest{Peer: "host-2"}, &ipam.ForgetRequest{Peer: "host-2"}} {
		if err := c.ask(0, q).Err; err != nil {
			t.Fatal(err)
		}
	}
	c.heal()
	c.ask(0, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
	c.run(time.Minute, c.agreed)
	found := 0
	for _, p := range c.status(2).Problems {
		if p.Code != "conflict" {
			continue
		}
		found++
		if since := " since " + begun.UTC().Format("2006-01-02 15:04"); !strings.Contains(p.Text, since) {
			t.Errorf("it was so%s: %s", since, p.Text)
		}
		e, err := c.peers[2].machine.Explain(c.now, p.Address)
		if err != nil {
			t.Fatal(err)
		}
		for _, next := range []string{p.Next, e.Next} {
			if !strings.Contains(next, ends[p.Address]) {
				t.Errorf("%s: the next step is %q", p.Text, next)
			}
		}
	}
	if found != len(ends) {
		t.Errorf("%d conflicts are told: %+v", found, c.status(2).Problems)
	}
}

// A host has left by force, with containers, and then all others are lost: it is what is
// left of the cluster, and begins anew with it.
func TestRecoverOfOneThatHadLeft(t *testing.T) {
	c, cidr := lab(t)
	if err := c.ask(2, &ipam.LeaveRequest{Force: true}).Err; err != nil {
		t.Fatal(err)
	}
	c.die(0, 1)
	if st := c.status(2).State; st != ipam.Left {
		t.Fatalf("it is %s", st)
	}
	if err := c.ask(2, &ipam.RecoverRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := c.ask(2, docker(cidr)); r.Err != nil || c.status(2).State != ipam.Alone {
			t.Errorf("%s: %v", c.status(2).State, r.Err)
		}
		c.start(2)
	}
}

// A pool whose removal a host was too far behind to hear of, so that it got the state as
// a whole, is noted to be gone, or who reads the notes has its containers in it for ever.
func TestRemovedPoolOfALaggardIsNoted(t *testing.T) {
	for _, whole := range []bool{false, true} {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		cidr := prefix("10.60.0.0/24")
		back := c.order()[2]
		other := (back + 1) % 3
		c.works(back, cidr)
		c.die(back)
		for _, q := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(back)}, &ipam.ForgetRequest{Peer: c.name(back)}, &ipam.PoolRemoval{Pool: cidr.String()}} {
			if err := c.ask(other, q).Err; err != nil {
				t.Fatal(err)
			}
		}
		if whole {
			c.forgetSlots(back)
		}
		c.heal()
		c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
		c.run(time.Minute, c.agreed)
		if got := c.peers[back].removed; !slices.Equal(got, []netip.Prefix{cidr}) {
			t.Errorf("as a whole: %v: noted to be removed are %v", whole, got)
		}
	}
}

// A host's plugin was installed anew under another name: its containers have addresses of its former self, as
// its engine lists. That process starts anew, and has no list yet: it cannot say that nobody uses that space.
func TestForgetBesideOneThatHasJustStarted(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		c := newAwaiting(t)
		c.run(time.Minute, c.agreed)
		cidr, at := prefix("10.60.0.0/24"), address("10.60.0.99")
		order := c.order()
		first, anew := order[0], order[2]
		former := c.peers[anew].machine.Self()
		look := func(i int) {
			inv := &ipam.Inventory{Begun: c.now}
			if i == anew && len(c.peers[i].machine.State().Pools) > 0 {
				inv.Networks = []ipam.InventoryNetwork{on(cidr.String(), listed(at.String(), "web", 7))}
			}
			c.call(i, inv)
		}
		for i := range c.peers {
			c.call(i, &ipam.Inventory{Begun: c.now})
		}
		c.wait(2 * time.Second)
		c.network(anew, cidr)
		if err := c.ask(anew, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "web", Address: at, MAC: ipam.MAC{2, 0, 0, 0, 0, 7}}).Err; err != nil {
			t.Fatal(err)
		}
		c.wait(2 * time.Second)
		c.rebuild(anew)
		c.run(time.Minute, func() bool { return len(c.peers[anew].machine.State().Roster) == 4 })
		c.wait(20 * time.Second)
		look(anew)
		c.wait(2 * time.Second)
		look(anew)
		c.wait(2 * time.Second)
		if err := c.ask(first, &ipam.EvictRequest{Peer: former.String()}).Err; err != nil {
			t.Fatal(err)
		}
		c.wait(20 * time.Second)
		if restarts {
			c.start(anew)
			c.wait(3 * time.Second) // the boot check is over, a list has not come yet
		}
		err := c.ask(first, &ipam.ForgetRequest{Peer: former.String()}).Err
		if err == nil {
			t.Errorf("restarts %t: it was forgotten", restarts)
		}
	}
}

// A report that answers what was asked before a start is not one on what is asked now.
func TestReportOfAnEarlierLife(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(time.Minute)
	order := c.order()
	first, second, gone := order[0], order[1], order[2]
	c.die(gone)
	if err := c.ask(first, &ipam.EvictRequest{Peer: c.name(gone)}).Err; err != nil {
		t.Fatal(err)
	}
	c.wait(20 * time.Second)
	c.start(first)
	c.step(first, &ipam.Presence{Peer: c.peers[gone].machine.Self()})
	c.wait(20 * time.Second)
	var late *wire.Report
	c.lose = func(f flight) bool {
		if r, ok := f.frame.Body.(wire.Report); ok && late == nil {
			late = &r
		}
		_, ok := f.frame.Body.(wire.Report)
		return ok
	}
	c.call(first, &ipam.ForgetRequest{Peer: c.name(gone)})
	c.wait(time.Second)
	c.start(first)
	c.step(first, &ipam.Presence{Peer: c.peers[gone].machine.Self()})
	c.wait(20 * time.Second)
	// The second one hears from it by now.
	c.step(second, &ipam.Presence{Peer: c.peers[gone].machine.Self(), Alive: true})
	c.call(first, &ipam.ForgetRequest{Peer: c.name(gone)})
	c.say(first, second, *late, func(*wire.Header) {})
	c.wait(time.Second)
	if g := c.peers[first].machine.State().Gone(c.peers[gone].machine.Self()); g == nil || g.Forgotten {
		t.Errorf("it was forgotten by report %+v", *late)
	}
}

// A host that was evicted is to be forgotten, as nobody hears from it, and the host that is to propose that is cut off
// just then. When it reaches the others again one of these hears from the lost one, which cannot be admitted yet: what
// they said half a minute ago counts no more.
func TestForgetByWhatWasTrueBefore(t *testing.T) {
	c := newLockstep(t, 4)
	c.found()
	order := c.order()
	first, other, asks, lost := order[0], order[1], order[2], order[3]
	if r := c.ask(lost, docker(prefix("10.50.0.0/24"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.die(lost)
	if r := c.ask(asks, &ipam.EvictRequest{Peer: c.name(lost)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := c.ask(asks, &ipam.ForgetRequest{Peer: c.name(lost), DryRun: true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.lose = func(f flight) bool { return f.from == asks || f.to == asks }
	call := c.call(asks, &ipam.ForgetRequest{Peer: c.name(lost)})
	c.wait(2 * time.Second)
	c.part(asks, first, other)
	c.run(time.Minute, func() bool { _, answered := c.peers[asks].replies[call]; return answered })
	c.dead = map[int]bool{first: true}
	c.part(other, first)
	for _, i := range []int{other, lost} {
		c.step(i, &ipam.Presence{Peer: c.peers[other+lost-i].machine.Self(), Alive: true})
	}
	c.wait(10 * time.Second)

	c.dead, c.lose = nil, func(flight) bool { return false }
	for _, i := range []int{first, other} {
		c.step(asks, &ipam.Presence{Peer: c.peers[i].machine.Self(), Alive: true})
		c.step(i, &ipam.Presence{Peer: c.peers[asks].machine.Self(), Alive: true})
	}
	c.wait(100 * time.Millisecond)
	c.heal()
	c.run(time.Minute, c.agreed)
	for _, p := range c.status(lost).Problems {
		t.Errorf("%s is back: %s", c.name(lost), p.Text)
	}
}

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
		for i := range c.peers {
			inv := &ipam.Inventory{Begun: c.now}
			if i == back && len(c.peers[i].machine.State().Pools) > 0 {
				inv.Networks = []ipam.InventoryNetwork{on(cidr.String(), endpoints...)}
			}
			c.call(i, inv)
		}
		c.call(back, &ipam.HostAddresses{At: c.now, Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
		c.wait(20 * time.Second)
	}
	conflicts := func() (out []netip.Addr) {
		for _, p := range c.status(back).Problems {
			if p.Code == "conflict" {
				out = append(out, p.Address)
			}
		}
		return out
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

	c.heal()
	c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
	c.run(time.Minute, c.agreed)
	if n := len(conflicts()); n == 0 {
		t.Fatal("nothing is in the space of others")
	}
	look(containers...)
	look(containers...)
	if got := conflicts(); !slices.Equal(got, []netip.Addr{taken}) {
		t.Errorf("conflicts about %v, and %v alone is another's", got, taken)
	}
	for _, a := range []netip.Addr{freed, left, vm, own} {
		wantErr(t, c.ip(other, cidr, a), ipam.ErrAddressInUse, c.name(back))
	}

	c.ask(other, &ipam.AddressRelease{Network: network, Address: taken})
	look(containers...)
	look(containers...)
	if got := conflicts(); len(got) > 0 {
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
				c.call(back, &ipam.HostAddresses{At: c.now, Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}})
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
		c.heal()
		c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
		c.run(time.Minute, c.agreed)
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
				c.call(i, &ipam.Inventory{Begun: c.now})
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
		c.heal()
		c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
		c.run(time.Minute, c.agreed)
		for range 2 {
			c.start(back)
			c.wait(5 * time.Second)
			if socket {
				c.call(back, &ipam.Blindness{})
			}
			for range 3 {
				c.call(back, &ipam.HostAddresses{At: c.now})
				c.wait(20 * time.Second)
			}
			if !slices.ContainsFunc(c.status(back).Problems, func(p ipam.Problem) bool { return p.Code == "conflict" && p.Address == at }) {
				t.Errorf("socket %t: it has %v, as another host, and tells of %+v", socket, at, c.status(back).Problems)
			}
		}
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: at})
		for range 4 {
			c.call(back, &ipam.HostAddresses{At: c.now})
			c.wait(20 * time.Second)
		}
		for _, p := range c.status(back).Problems {
			if p.Code == "conflict" {
				t.Errorf("socket %t: it alone has %v, and says: %s", socket, at, p.Text)
			}
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
	conflicts := func() (n int) {
		for _, p := range c.status(back).Problems {
			if p.Code == "conflict" {
				n++
			}
		}
		return n
	}
	lists := map[int][]ipam.InventoryNetwork{}
	look := func() {
		for i := range c.peers {
			inv := &ipam.Inventory{Begun: c.now, Networks: lists[i]}
			for again := c.ask(i, inv).Again; again == time.Second; again = c.ask(i, inv).Again {
				c.wait(again)
				inv.Begun = c.now
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
		if c.ask(back, &ipam.Inventory{Begun: c.now, Networks: lists[back]}); conflicts() != 1 {
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
	c.heal()
	c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
	c.run(time.Minute, c.agreed)
	if n := len(c.status(back).Problems); n == 0 {
		t.Fatal("nothing is in the space of others")
	}
	frames, slot := c.frames, c.peers[back].machine.State().Slot
	for range 3 { // the second one while the first is under way
		c.call(back, &ipam.HostAddresses{At: c.now})
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

// A host is forgotten, and the pool of what it has is removed before it is back: what it had there is told no more, which
// nothing that it is told to do would end, also where no list comes.
func TestConflictsOfARemovedPool(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	back := c.order()[2]
	other := (back + 1) % 3
	c.works(back, cidr)
	c.die(back)
	c.giveUp(other, back)
	if err := c.ask(other, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
		t.Fatal(err)
	}
	c.heal()
	c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
	c.run(time.Minute, c.agreed)
	c.wait(20 * time.Second)
	for _, p := range c.status(back).Problems {
		t.Errorf("the pool is gone, and %s: %s", p.Text, p.Next)
	}
}

// A host is forgotten, the others make and remove a network, with which goes what networks keep back, and a container of
// another host gets the router and an auxiliary address of the one that the forgotten host has. It is back: it tells of that, once,
// until they are free, and then has them kept back again.
func TestForgottenHostWhoseRouterWasHandedOut(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr, router, device := prefix("10.60.0.0/24"), address("10.60.0.1"), address("10.60.0.77")
	back := c.order()[2]
	other := (back + 1) % 3
	lists := map[int][]ipam.InventoryNetwork{}
	look := func(times int) {
		for range times {
			for i := range c.peers {
				if !c.dead[i] && c.ask(i, &ipam.Inventory{Begun: c.now, Networks: lists[i]}).Again == time.Second {
					c.wait(time.Second)
					c.ask(i, &ipam.Inventory{Begun: c.now, Networks: lists[i]})
				}
			}
			c.wait(20 * time.Second)
		}
	}
	look(2)
	n := c.network(back, cidr, device.String())
	if r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}); r.Address.Address.Addr() != router {
		t.Fatal(r.Address, r.Err)
	}
	lists[back] = []ipam.InventoryNetwork{keeping(cidr.String(), device.String())}
	lists[back][0].Gateways = []netip.Addr{router}
	look(4)
	c.die(back)
	c.giveUp(other, back)
	short := c.network(other, cidr)
	c.wait(2 * time.Minute)
	c.ask(other, &ipam.PoolRelease{Network: short})
	look(10)
	for k, a := range []netip.Addr{router, device} {
		if err := c.ip(other, cidr, a); err != nil {
			t.Fatal(err)
		}
		lists[other] = append(lists[other], on(cidr.String(), listed(a.String(), "web", byte(7+k))))
	}
	c.heal()
	c.ask(other, &ipam.PoolCreation{CIDR: prefix("10.99.0.0/24")}) // to be heard of
	c.run(time.Minute, c.agreed)
	told := func() (out []netip.Addr) {
		for _, p := range c.status(back).Problems {
			if p.Code == "conflict" {
				out = append(out, p.Address)
			}
		}
		slices.SortFunc(out, netip.Addr.Compare)
		return out
	}
	look(2)
	noted := len(c.peers[back].noted)
	for range 5 {
		look(1)
		if got := told(); !slices.Equal(got, []netip.Addr{router, device}) {
			t.Fatalf("its router and a device of its network are %v and %v, another host's containers have both, and it tells of %v", router, device, got)
		}
	}
	if n := len(c.peers[back].noted) - noted; n > 0 {
		t.Errorf("that was noted %d times more: %+v", n, c.peers[back].noted)
	}
	for _, a := range []netip.Addr{router, device} {
		c.ask(other, &ipam.AddressRelease{Network: local(cidr), Address: a})
	}
	delete(lists, other)
	look(4)
	if got := told(); len(got) > 0 {
		t.Errorf("it tells of %v, which nobody else has", got)
	}
	for _, a := range []netip.Addr{router, device} {
		wantErr(t, c.ip(other, cidr, a), ipam.ErrAddressReserved)
	}
	c.check()
}
