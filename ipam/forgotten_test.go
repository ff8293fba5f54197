package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
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
				inv := &ipam.Inventory{}
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
		c.giveUp(other, back)
		if err := c.ask(other, &ipam.PoolRemoval{Pool: cidr.String()}).Err; err != nil {
			t.Fatal(err)
		}
		if remade {
			c.network(other, cidr)
		}
		c.comeBack(other)
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
		c.call(2, lan("10.50.0.0/24")) // they are gone
		c.wait(12 * time.Second)
	}
	for i := range c.peers {
		if err := c.ask(i, &ipam.ForgetRequest{Peer: "host-2"}).Err; err != nil {
			t.Error(err)
		}
	}
}

// A host that was forgotten comes back with its containers, rejoins, and takes space as a new peer. It keeps its stock
// beside what its containers have, and starts containers where it is cut off.
func TestStockBesideWhatWasForgotten(t *testing.T) {
	for _, containers := range []int{0, 20} {
		c := newLockstep(t, 3)
		c.found()
		cidr := prefix("10.50.0.0/24")
		for range containers {
			c.ask(2, docker(cidr))
		}
		c.die(2)
		c.giveUp(0, 2)
		c.heal()
		c.run(time.Minute, func() bool { return c.isSuspended(2) })
		c.rejoin(2)
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
			inv := &ipam.Inventory{}
			if i == anew && len(c.peers[i].machine.State().Pools) > 0 {
				inv.Networks = []ipam.InventoryNetwork{on(cidr.String(), listed(at.String(), "web", 7))}
			}
			c.call(i, inv)
		}
		for i := range c.peers {
			c.call(i, &ipam.Inventory{})
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
