package sentence_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// A refusal says what failed, why, and what to do.
func Example() {
	lab := &chronicle.Pool{CIDR: netip.MustParsePrefix("10.50.0.0/24"), Name: "lab"}
	web := space.Holder{Kind: space.Container, Name: "web"}
	since := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC).UnixNano()
	err := sentence.AddressHeld("host-a", lab, netip.MustParseAddr("10.50.0.9"), web, since)
	fmt.Println(sentence.Code(err))
	fmt.Println(err)
	// Output:
	// address-in-use
	// address 10.50.0.9 in 10.50.0.0/24 (lab) is held by container web on host-a since 2026-03-01 09:30 UTC: stop that container first, or choose another address
}
