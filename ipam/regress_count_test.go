package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Two networks on one subnet, with the same options, of which the second was taken for a
// replay of the first; and one that was asked for and that the engine never made. As many
// are counted as are listed. A container on both, whose start takes long, has two
// addresses.
func TestTwoNetworksOfWhichOneWasNeverMade(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Sticky: ipam.StickyMAC})
	h.Restart()
	h.Call(&ipam.Greeting{})
	network(t, h, "10.50.0.0/24") // another
	networks := []ipam.InventoryNetwork{on("10.50.0.0/24"), on("10.50.0.0/24")}
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, networks...)
	}
	first := mustAsk(t, h, n, "web", 7, "").Address.Addr()
	h.Now = h.Now.Add(time.Second)
	look(h, networks...)
	if second := mustAsk(t, h, n, "web", 7, "").Address.Addr(); second == first {
		t.Errorf("it has %v on both networks", first)
	}
}

// Two networks with different options on a pool. A container with a fixed address was started, its
// start failed and no release came; it starts again before the engine has listed anything since.
func TestFixedAddressAskedAgain(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{AwaitInventory: true})
	two := func(es ...ipam.InventoryEndpoint) *ipam.Inventory {
		a, b := on("10.50.0.0/24", es...), on("10.50.0.0/24")
		b.ID, b.Name = "n2", "net2"
		return &ipam.Inventory{Begun: h.Now, Networks: []ipam.InventoryNetwork{a, b}}
	}
	h.Call(&ipam.Inventory{Begun: h.Now})
	n := network(t, h, "10.50.0.0/24")
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.0/25")})
	for range 3 {
		h.Now = h.Now.Add(2 * time.Minute)
		h.Call(two())
	}
	h.Now = h.Now.Add(time.Second)
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 1}, Address: netip.MustParseAddr("10.50.0.50")}
	if r := h.Call(q); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.Now = h.Now.Add(2 * time.Second)
	r, ok := h.Try(q)
	if ok && r.Err != nil {
		t.Errorf("refused before the engine could tell: %v", r.Err)
	}
}

// The last network on a pool is removed while the engine lists what it has, so the list
// has it still. The pool is to go right behind it: that waits for the next list, which
// tells whether the network that was listed is the one that went.
func TestPoolRemovedRightBehindItsNetwork(t *testing.T) {
	const subnet = "10.60.0.0/24"
	for what, q := range map[string]ipam.Request{
		"ringlet pool rm": &ipam.PoolRemoval{Pool: subnet},
		"it makes room":   &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/16")},
	} {
		for _, stays := range []bool{false, true} {
			c := newLockstep(t, 3)
			c.found()
			list := func(begun time.Time, networks ...ipam.InventoryNetwork) {
				c.call(0, &ipam.Inventory{Begun: begun, Networks: networks})
			}
			n := c.network(0, prefix(subnet))
			c.wait(time.Minute)
			list(c.now, on(subnet))
			c.wait(time.Minute)
			begun := c.now
			c.wait(10 * time.Millisecond)
			c.ask(0, &ipam.PoolRelease{Network: n})
			list(begun, on(subnet))
			call := c.call(0, q)
			c.wait(time.Second)
			if r, ok := c.peers[0].replies[call]; ok {
				t.Errorf("%s: answered by a list from before: %v", what, r.Err)
			}
			if stays {
				list(c.now, on(subnet))
			} else {
				list(c.now)
			}
			c.wait(time.Second)
			switch r, ok := c.peers[0].replies[call]; {
			case !ok:
				t.Errorf("%s, another network is there %t: the next list does not answer it", what, stays)
			case (r.Err != nil) != stays:
				t.Errorf("%s, another network is there %t: %v", what, stays, r.Err)
			}
		}
	}
}
