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
		l.call(2, &ipam.Inventory{Begun: l.now, Networks: []ipam.InventoryNetwork{l.networks[2], on(theirs.String())}})
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
