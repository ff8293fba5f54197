package ipam_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A network on the last host, which it has yet to list, is overlapped by no pool that
// another host or an operator wants to have made.
func TestOthersMayHaveTheSubnet(t *testing.T) {
	l := newBegun(t)
	theirs, wider := prefix("10.77.0.0/24"), prefix("10.77.0.0/23")
	refused := func(r ipam.Reply, what string) {
		t.Helper()
		if !errors.Is(r.Err, ipam.ErrNotReady) {
			t.Errorf("%s: got %v, want ErrNotReady", what, r.Err)
		}
	}
	refused(l.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: wider}), "a network")
	refused(l.ask(0, &ipam.PoolCreation{CIDR: wider}), "a pool")
	if r := l.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: l.cidr}); r.Err != nil {
		t.Errorf("a network on a pool that there is: %v", r.Err)
	}
	l.list(2)
	for range 3 {
		l.call(2, &ipam.Inventory{Networks: []ipam.InventoryNetwork{l.networks[2], on(theirs.String())}})
		l.wait(time.Second)
	}
	if err := l.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: wider}).Err; !errors.Is(err, ipam.ErrPoolInUse) {
		t.Errorf("a network that overlaps one of %s: got %v, want ErrPoolInUse", l.name(2), err)
	}
	if err := l.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.99.0.0/24")}).Err; err != nil {
		t.Errorf("a network of its own: %v", err)
	}
}

// An engine that starts asks for its networks before it lists them: it does not
// wait for those of other hosts.
func TestReplayDoesNotWaitForOthers(t *testing.T) {
	l := newBegun(t)
	l.lockstep.start(0)
	l.run(time.Minute, l.agreed)
	if err := l.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.88.0.0/24")}).Err; err != nil {
		t.Errorf("got %v", err)
	}
}

// A host that was forgotten is back with a container on a network whose pool was removed, and has yet to list it. A pool in the
// way of that one is made meanwhile, of which the host gets its part, and is left by its network. The list has it make room: it
// shows that the host has nothing there, and what the host has on the other could never be taken in otherwise.
func TestPoolInTheWayOfWhatIsListed(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	small, wide, at := prefix("10.60.0.16/28"), prefix("10.60.0.0/27"), address("10.60.0.20")
	back := c.order()[2]
	other := (back + 1) % 3
	web := listed(at.String(), "web", 7)
	look := func(networks ...ipam.InventoryNetwork) {
		c.lists(back, networks...)
		c.wait(2 * time.Second)
	}
	look()
	look()
	n := c.network(back, small)
	if r := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", Address: at, MAC: web.MAC}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(time.Minute)
	look(on(small.String(), web))
	c.die(back)
	c.giveUp(other, back)
	if err := c.ask(other, &ipam.PoolRemoval{Pool: small.String()}).Err; err != nil {
		t.Fatal(err)
	}
	c.comeBack(other)
	c.ask(other, &ipam.PoolRelease{Network: c.network(other, wide)})
	c.wait(10 * time.Second)
	for range 10 {
		look(on(small.String(), web))
	}
	if c.peers[back].machine.AwaitsLists() {
		t.Fatalf("what it lists is not taken in: %+v", c.status(back).Problems)
	}
	wantErr(t, c.ip(other, small, at), ipam.ErrAddressInUse, c.name(back))
}
