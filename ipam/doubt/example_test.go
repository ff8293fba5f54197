package doubt_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/doubt"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
)

// A container ended, as a list told. For ten minutes its release may come, although another container has the address.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	w.Reset(time.Unix(0, 0))
	e := engine.New(&w)
	e.Configure(engine.Config{Lists: true})
	doubts := doubt.New(&w, e)
	address := netip.MustParseAddr("10.50.0.7")

	doubts.Add(address)
	w.Reset(time.Unix(599, 0))
	fmt.Println(doubts.Has(address))
	w.Reset(time.Unix(600, 0))
	fmt.Println(doubts.Has(address))
	// Output:
	// true
	// false
}
