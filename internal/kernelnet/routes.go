package kernelnet

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route is a route of the main table.
type Route struct {
	Interface int          // its index; 0: it has none, as one that refuses
	To        netip.Prefix // masked
	Gateway   netip.Addr   // by way of another host; zero: what it leads to is on the link
	Reject    bool         // what is sent there is refused, or dropped
	Metric    uint32       // the lowest counts
}

// Routes returns the routes of this host, those of IPv4 first. An error is the last that it returns. Of a table that changes while it
// is read a route may be missing, or be there twice.
func Routes() iter.Seq2[Route, error] {
	return func(yield func(Route, error) bool) {
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			ended := false
			err := netlink.RouteListFilteredIter(family, &netlink.Route{}, 0, func(r netlink.Route) bool {
				if to := prefixOf(r.Dst); to.IsValid() {
					ended = !yield(routeOf(&r, to), nil)
				}
				return !ended
			})
			if ended {
				return
			}
			if err != nil && !isInterrupted(err) {
				yield(Route{}, fmt.Errorf("list the routes: %w", err))
				return
			}
		}
	}
}

func isInterrupted(err error) bool { return errors.Is(err, netlink.ErrDumpInterrupted) }

// routeOf returns what counts of a route. One with several ways is on the link if any of them is.
func routeOf(r *netlink.Route, to netip.Prefix) Route {
	out := Route{
		Interface: r.LinkIndex, To: to.Masked(), Metric: uint32(r.Priority),
		Reject: slices.Contains([]int{unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_BLACKHOLE, unix.RTN_THROW}, r.Type),
	}
	out.Gateway = gatewayOf(r.Gw, r.Via)
	for i, way := range r.MultiPath {
		gateway := gatewayOf(way.Gw, way.Via)
		if i == 0 || !gateway.IsValid() {
			out.Interface, out.Gateway = way.LinkIndex, gateway
		}
	}
	return out
}

// gatewayOf returns the gateway, which may be of the other kind (RFC 5549).
func gatewayOf(gw []byte, via netlink.Destination) netip.Addr {
	if v, ok := via.(*netlink.Via); ok && v != nil {
		gw = v.Addr
	}
	a, _ := netip.AddrFromSlice(gw)
	return a
}
