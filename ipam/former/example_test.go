package former_test

import (
	"fmt"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/former"
)

// A peer that has started over waits for a client of the former one until that has its address again.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	address := netip.MustParseAddr("10.50.0.7")

	p := former.New(&w)
	p.Begin([16]byte{9}, []former.Client{{Pool: "10.50.0.0/24", Address: address, ID: "printer"}})
	fmt.Println(p.Was(), p.Awaits(address, "printer"))
	p.Claimed("printer", netip.PrefixFrom(address, 32))
	fmt.Println(p.Was(), p.Awaits(address, "printer"))
	// Output:
	// true true
	// true false
}
