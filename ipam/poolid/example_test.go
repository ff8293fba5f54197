package poolid_test

import (
	"fmt"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/poolid"
)

// The ID of a network is all that is needed to serve it.
func Example() {
	lab := netip.MustParsePrefix("10.50.0.0/16")
	id := poolid.Network{Space: poolid.Local, Pool: lab, Range: lab, Sticky: poolid.StickyMAC}.ID()
	fmt.Println(id)
	n, err := poolid.Parse(id)
	fmt.Println(n.Pool, n.Gateway, n.Sticky, err)
	// Output:
	// ringlet1/local/10.50.0.0/16;sticky=mac
	// 10.50.0.0/16 host mac <nil>
}
