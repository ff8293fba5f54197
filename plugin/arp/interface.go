package arp

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"

	"github.com/ringlet/ringlet/internal/kernelnet"
)

// ErrNoInterface is returned for an address in no subnet of this host, if
// there is no default route over an Ethernet interface either.
var ErrNoInterface = errors.New("no interface of this host has an address in the network's subnet, and no default route goes over Ethernet")

// link is an interface that has an address of its own.
type link struct {
	index  int
	prefix netip.Prefix // its address, not masked
}

// choose returns the interface on which to ask for an address: the one whose
// subnet has it, the smallest if there are several, else byDefault: that of the
// default route, 0 if there is none.
func choose(a netip.Addr, links []link, byDefault int) (index int) {
	best := -1
	for _, l := range links {
		if l.prefix.Masked().Contains(a) && l.prefix.Bits() > best {
			index, best = l.index, l.prefix.Bits()
		}
	}
	if best < 0 {
		return byDefault
	}
	return index
}

// ethernet returns the interfaces on which ARP is spoken, by index.
func ethernet(all []kernelnet.Interface) map[int]kernelnet.Interface {
	out := map[int]kernelnet.Interface{}
	for _, i := range all {
		const wanted, unwanted = net.FlagUp | net.FlagBroadcast, net.FlagLoopback | net.FlagPointToPoint
		if i.Flags&wanted == wanted && i.Flags&unwanted == 0 && len(i.HardwareAddr) == len(MAC{}) {
			out[i.Index] = i
		}
	}
	return out
}

// interfaceFor returns the interface on which to ask for an address, and the
// MACs of all that this host has.
func interfaceFor(a netip.Addr) (net.Interface, map[MAC]bool, error) {
	all, err := kernelnet.Interfaces()
	if err != nil {
		return net.Interface{}, nil, err
	}
	own := map[MAC]bool{}
	for _, i := range all {
		if len(i.HardwareAddr) == len(MAC{}) {
			own[MAC(i.HardwareAddr)] = true
		}
	}
	usable := ethernet(all)
	byDefault, err := defaultRoute(kernelnet.Routes())
	if err != nil {
		return net.Interface{}, nil, fmt.Errorf("look for the default route: %w", err)
	}
	found, ok := usable[choose(a, linksOf(usable), byDefault)]
	if !ok {
		return net.Interface{}, nil, ErrNoInterface
	}
	return found.Interface, own, nil
}

// linksOf returns the IPv4 addresses of the interfaces.
func linksOf(usable map[int]kernelnet.Interface) (out []link) {
	for _, i := range usable {
		for _, p := range i.Addresses {
			if p.Addr().Is4() {
				out = append(out, link{i.Index, p})
			}
		}
	}
	return out
}

// defaultRoute returns the index of the interface of the IPv4 default route with the lowest metric, 0 if there is none.
func defaultRoute(routes iter.Seq2[kernelnet.Route, error]) (index int, err error) {
	var best kernelnet.Route
	for r, err := range routes {
		if err != nil {
			return 0, err
		}
		if !r.To.Addr().Is4() {
			break // those of IPv4 come first
		}
		if r.To.Bits() == 0 && !r.Reject && (best.Interface == 0 || r.Metric < best.Metric) {
			best = r
		}
	}
	return best.Interface, nil
}
