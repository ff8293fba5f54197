package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// undecided is what is lost while nothing can be agreed.
func undecided(f flight) bool {
	switch f.frame.Body.(type) {
	case wire.Submit, wire.Accept, wire.Prepare, wire.Accepted, wire.Promise:
		return true
	}
	return false
}

// A container whose address is just being given back, since it waited for it for
// long, waits for what is agreed on, and has its address then.
func TestStartsWhileItsAddressIsGivenBack(t *testing.T) {
	c, cidr := lab(t)
	want := address("10.50.0.77")
	if err := c.ask(1, keep("10.50.0.77", "web")).Err; err != nil {
		t.Fatal(err)
	}
	start := &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "web"}
	if r := c.ask(1, start); r.Err != nil || r.Address.Address.Addr() != want {
		t.Fatalf("got %v, %v", r.Address, r.Err)
	}
	if r := c.ask(1, &ipam.AddressRelease{Network: local(cidr), Address: want}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.lose = undecided
	c.wait(6 * time.Minute)
	if c.peers[1].machine.MayHandOut(cidr, want) {
		t.Fatal("it is not being given back")
	}
	id := c.call(1, start)
	if r, ok := c.peers[1].replies[id]; ok {
		t.Errorf("it was answered at once: %v, %v", r.Address.Address, r.Err)
	}
	c.lose = func(flight) bool { return false }
	c.wait(5 * time.Second)
	if r, ok := c.peers[1].replies[id]; !ok || r.Err != nil || r.Address.Address.Addr() != want {
		t.Errorf("then got %v, %v (answered: %t), want %v", r.Address.Address, r.Err, ok, want)
	}
	c.check()
}

// A container that claims the address that it has, and that is just being kept
// for its name, has it still when that is agreed on.
func TestClaimsWhileItsAddressIsBeingKept(t *testing.T) {
	c, cidr := lab(t)
	want := address("10.50.0.77")
	claim := &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "web", Address: want}
	if r := c.ask(1, claim); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.lose = undecided
	c.call(1, keep("10.50.0.77", "web"))
	id := c.call(1, claim)
	c.lose = func(flight) bool { return false }
	c.wait(5 * time.Second)
	if r, ok := c.peers[1].replies[id]; !ok || r.Err != nil || r.Address.Address.Addr() != want {
		t.Errorf("got %v, %v (answered: %t), want %v", r.Address.Address, r.Err, ok, want)
	}
	if !c.peers[1].machine.MayHandOut(cidr, want) {
		t.Error("it holds it no more")
	}
	c.check()
}
