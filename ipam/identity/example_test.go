package identity_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/identity"
)

// A set keeps its number until it is collected. Then the number is gone for good.
func Example() {
	web := identity.Text(map[string]string{"service": "web", "project": "shop/eu"})
	fmt.Println(web)
	var r identity.Registry
	first, _ := r.Identify(web)
	fmt.Println(first, r.Number(web))
	r.Collect([]uint64{first})
	second, _ := r.Identify(web)
	fmt.Println(second)
	// Output:
	// project=shop%2Feu;service=web
	// 256 256
	// 257
}
