package subnets

import (
	"fmt"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// unusable are the stretches in which no host can have an address.
var unusable = []struct {
	cidr netip.Prefix
	what string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "\"this network\" (RFC 1122)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "the loopback addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "the multicast addresses"},
	{netip.MustParsePrefix("::/127"), "the unspecified and the loopback address"},
	{netip.MustParsePrefix("fe80::/10"), "the link-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "the multicast addresses"},
}

// CheckUse reports why containers cannot use addresses of the subnet.
func CheckUse(cidr netip.Prefix) error {
	for _, u := range unusable {
		if u.cidr.Overlaps(cidr) {
			return fmt.Errorf("subnet %v overlaps %v, %s, which containers cannot use: choose another subnet", cidr, u.cidr, u.what)
		}
	}
	// In wider subnets it is the broadcast address, which nobody gets anyway.
	if limited := netip.AddrFrom4([4]byte{255, 255, 255, 255}); cidr.Bits() > 30 && cidr.Contains(limited) {
		return fmt.Errorf("subnet %v has %v in it, the limited broadcast address (RFC 919), which containers cannot use: choose another subnet", cidr, limited)
	}
	return nil
}

// Fixed returns the addresses that no host may have: an IPv4
// network's first and last (RFC 1122, 3.2.1.3), unless it is a /31 (RFC 3021)
// or /32, and an IPv6 subnet's first (RFC 4291, 2.6.1), unless it is a /127
// (RFC 6164) or /128.
func Fixed(cidr netip.Prefix) []chronicle.Reservation {
	size := addr.Offset(addr.Size(cidr))
	switch {
	case size <= 2:
		return nil
	case cidr.Addr().Is6():
		return []chronicle.Reservation{{Range: addr.One(0), Kind: chronicle.KindRouter}}
	}
	return []chronicle.Reservation{
		{Range: addr.One(0), Kind: chronicle.KindNetwork},
		{Range: addr.One(size - 1), Kind: chronicle.KindBroadcast},
	}
}
