package pool_test

import (
	"fmt"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// A new database knows what is free before it knows what is held: the engine's list tells.
func Example() {
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	p := &pool.Pool{Pool: &chronicle.Pool{CIDR: cidr}, Space: space.New(addr.Size(cidr))}
	fmt.Println(p.ShowsFree(addr.One(5)))
	p.Seen, p.Surveyed = map[addr.Offset]string{4: "web"}, true
	fmt.Println(p.ShowsFree(addr.One(4)), p.ShowsFree(addr.One(5)))
	// Output:
	// false
	// false true
}
