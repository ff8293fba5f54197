package warning_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/warning"
)

// A peer was given up, and warns of the address of a container on its host.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	w.Reset(time.Unix(0, 0))
	self, given := peer.ID{1}, peer.ID{2}
	warnings := warning.New(&w)
	address := netip.MustParseAddr("10.50.0.7")

	warnings.Take(address, given, self)
	w.Reset(time.Unix(599, 0))
	fmt.Println(warnings.AnyOver())
	w.Reset(time.Unix(600, 0))
	fmt.Println(warnings.Over(func(netip.Addr, peer.ID) bool { return false }))
	// Output:
	// false
	// [10.50.0.7]
}
