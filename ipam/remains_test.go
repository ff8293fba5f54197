package ipam_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A host that has left starts over: it knows the other peers and joins them, whatever it is
// told, and claims what its clients had. None of this is lost if its process ends in between.
func TestRemainsOfAHostThatHasLeft(t *testing.T) {
	c := newLockstepWith(t, 3, onOwnMachines)
	c.found()
	cidr := prefix("10.50.0.0/24")
	c.network(2, cidr)
	claim := &ipam.ClientRequest{Pool: cidr.String(), Address: address("10.50.0.77"), ID: "shim"}
	if err := c.ask(2, claim).Err; err != nil {
		t.Fatal(err)
	}
	if _, err := c.peers[2].machine.Remains(); err == nil {
		t.Fatal("a peer of the cluster is to start over")
	}
	if err := c.ask(2, &ipam.LeaveRequest{Force: true}).Err; err != nil {
		t.Fatal(err)
	}
	remains, err := c.peers[2].machine.Remains()
	if err != nil {
		t.Fatal(err)
	}
	if len(remains.Contacts) != 2 || !slices.Equal(remains.Clients, []ipam.ClientRequest{*claim}) || !slices.Contains(remains.Used, claim.Address) {
		t.Fatalf("there remains %+v", remains)
	}
	c.peers[2].cfg.Join, c.peers[2].cfg.FoundAlone, c.peers[2].cfg.Formation = false, true, ipam.Formation{}
	c.rejoin(2)
	c.start(2) // once more
	if got := c.peers[2].machine.Unclaimed(); !slices.Equal(got, remains.Clients) {
		t.Errorf("unclaimed are %+v", got)
	}
	c.run(time.Minute, c.agreed)
	c.wait(20 * time.Second) // until it has taken over from its former self
	if err := c.ask(2, claim).Err; err != nil {
		t.Error(err)
	}
	if got := c.peers[2].machine.Unclaimed(); len(got) > 0 {
		t.Errorf("%+v are to be claimed again", got)
	}
}
