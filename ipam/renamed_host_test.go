package ipam_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Hosts that are given another name.

// A host is given another name, with the database that it has: the others show it, and
// know it, under that one, also after they have started anew themselves.
func TestAnotherName(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.50.0.0/24")
	held := c.ask(2, docker(cidr)).Address.Address.Addr()
	c.peers[2].cfg.Name = "other"
	c.start(2)
	for i := range 2 {
		c.step(i, &ipam.Presence{Peer: c.peers[2].machine.Self(), Alive: true, Seat: 3, Name: "other"})
	}
	c.wait(10 * time.Second)
	c.start(1)
	c.wait(10 * time.Second)
	for i := range c.peers {
		var names []string
		for _, p := range c.status(i).Peers {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if want := []string{"host-0", "host-1", "other"}; !slices.Equal(names, want) {
			t.Errorf("%s shows the peers %q, want %q", c.name(i), names, want)
		}
	}
	if who, err := c.peers[0].machine.Who(c.now, held); err != nil || who.Peer != "other" {
		t.Errorf("%v is with %+v, %v", held, who, err)
	}
	wantErr(t, c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err, ipam.ErrPeerNotFound)
	c.die(2)
	for i := range 2 {
		if r := c.ask(i, &ipam.EvictRequest{Peer: "other"}); r.Err != nil {
			t.Errorf("%s: %v", c.name(i), r.Err)
		}
	}
}

// A host lost its database, was set up again under another name, and has its old name
// back: the cluster knows it by the other one, so that it cannot take over from its
// former self. It does not try for ever, and what is asked of that space is refused.
func TestNamedAsItsFormerSelfAgain(t *testing.T) {
	c := newLockstepWith(t, 3, onOwnMachines)
	c.found()
	cidr := prefix("10.50.0.0/24")
	held := c.ask(2, docker(cidr)).Address.Address.Addr()
	c.wait(time.Minute)
	c.die(2)
	if r := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.dead = nil
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation, cfg.Machine = ipam.Formation{}, 33 })
	c.run(time.Minute, c.agreed)
	c.wait(time.Minute)
	c.peers[2].cfg.Machine = 3
	c.start(2)
	c.wait(time.Minute)
	was := c.peers[0].machine.State().Slot
	c.wait(5 * time.Minute)
	if slots := c.peers[0].machine.State().Slot - was; slots > 5 {
		t.Errorf("%d decisions in five minutes in which nobody wants anything", slots)
	}
	refused(t, c.ip(2, cidr, held), "release its addresses with ringlet forget host-2")
}

// A host has another name since its last start, of which others heard from itself before the carrier
// told them. They know it by that one also after they have started anew while it is off.
func TestAnotherNameOfOneThatIsOff(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.peers[2].cfg.Name = "other"
	c.start(2)
	c.wait(10 * time.Second)
	c.peers[2].cfg.Name = "" // which the carrier tells whoever starts
	c.silence(2)
	c.start(0)
	c.wait(10 * time.Second)
	if got := c.peers[0].machine.NameOf(c.peers[2].machine.Self()); got != "other" {
		t.Errorf("it is called %s", got)
	}
}
