package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
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
