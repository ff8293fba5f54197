package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// What a host has taken since its last word is not counted as held: until its next word others count what they did, also where
// it is lost before.
func TestTakenSinceTheLastWordIsNotHeld(t *testing.T) {
	c, cidr := lab(t)
	c.wait(2 * time.Minute)
	counted := func() uint64 { return c.status(0).Pools[0].Held }
	owned := func() (n uint64) {
		for _, s := range c.status(0).Pools[0].Shares {
			if s.Owner == c.peers[2].machine.Self().String() {
				n = s.Owned
			}
		}
		return n
	}
	rest, began, grown := counted(), owned(), 0
	if rest != 15 {
		t.Fatalf("at rest %d are counted, there are 15", rest)
	}
	for n := 0; grown < 3; n++ {
		if r := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err != nil || n > 200 {
			t.Fatalf("after %d addresses: %v", n, r.Err)
		}
		if now := owned(); now != began {
			began = now
			grown++
		}
		if got := counted(); got != rest {
			t.Fatalf("%d are counted after %d more, and nobody has said so", got, n+1)
		}
	}
	c.die(2)
	if got := counted(); got != rest {
		t.Errorf("once it is lost, %d are counted", got)
	}
}
