package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// What a host that has no engine's socket, or whose engine is silent, says of its networks.

// rebuiltWithoutSocket is a cluster of hosts without sockets, of which the third was
// rebuilt, with a network that it knows nothing of, and has taken over from its former self.
func rebuiltWithoutSocket(t *testing.T) *lockstep {
	t.Helper()
	c := newLockstepWith(t, 3, onOwnMachines)
	c.found()
	c.network(2, prefix("10.60.0.0/24"))
	c.wait(5 * time.Second)
	before := c.rebuild(2)
	c.wait(time.Minute)
	if g := c.peers[2].machine.State().Gone(before); g == nil || !g.Forgotten {
		t.Fatal("it did not take over")
	}
	return c
}

// What its former network shares stays kept back; what a later one does goes with that,
// and so does the host.
func TestRebuiltWithoutSocket(t *testing.T) {
	c := rebuiltWithoutSocket(t)
	n := c.network(2, prefix("10.61.0.0/24"))
	c.wait(time.Minute)
	c.ask(2, &ipam.PoolRelease{Network: n})
	c.wait(3 * time.Minute)
	wantErr(t, c.ip(0, prefix("10.60.0.0/24"), address("10.60.0.1")), ipam.ErrAddressReserved)
	if err := c.ip(0, prefix("10.61.0.0/24"), address("10.61.0.1")); err != nil {
		t.Error(err)
	}
	c.call(2, &ipam.LeaveRequest{})
	c.wait(5 * time.Minute)
	if n := len(c.peers[0].machine.State().Roster); n != 2 {
		t.Errorf("it does not leave: %d are in the roster", n)
	}
}

// A host without a socket starts anew before it has said that its last network went: its
// database knows that, and the subnet is not lost.
func TestStartsAnewWithoutSocketAfterItsLastNetwork(t *testing.T) {
	c := choosers(t, "10.32.0.0/24")
	r := c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Gateway: ipam.GatewayFirst})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(10 * time.Second)
	c.lose = func(f flight) bool { return f.from == 1 || f.to == 1 }
	c.ask(1, &ipam.PoolRelease{Network: r.Pool.Network})
	c.start(1)
	c.lose = func(flight) bool { return false }
	c.wait(10 * time.Minute)
	if err := c.ask(0, &ipam.PoolRequest{Space: ipam.Local}).Err; err != nil {
		t.Error(err)
	}
}

// A subnet that is chosen for a network whose options do not fit it goes again, also where
// the engine is silent.
func TestChosenForWhatIsRefused(t *testing.T) {
	for _, socket := range []bool{false, true} {
		h := machinetest.NewHost(t, ipam.Config{Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.32.0.0/22")}}, AwaitInventory: socket})
		if socket {
			h.Call(&ipam.Blindness{})
		}
		for range 6 {
			wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Range: prefix("192.168.5.0/28")}).Err, ipam.ErrBadRequest)
		}
		if n := len(h.Machine().State().Pools); n != 0 {
			t.Errorf("with a socket %v: %d pools are left", socket, n)
		}
	}
}
