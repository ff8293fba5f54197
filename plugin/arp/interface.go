package arp

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/ringlet/ringlet/plugin/route"
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
func ethernet(all []net.Interface) map[int]net.Interface {
	out := map[int]net.Interface{}
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
	all, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, nil, fmt.Errorf("list the interfaces: %w", err)
	}
	own := map[MAC]bool{}
	for _, i := range all {
		if len(i.HardwareAddr) == len(MAC{}) {
			own[MAC(i.HardwareAddr)] = true
		}
	}
	usable := ethernet(all)
	links, err := addresses(usable)
	if err != nil {
		return net.Interface{}, nil, fmt.Errorf("list the addresses of the interfaces: %w", err)
	}
	byDefault, err := defaultRoute(usable)
	if err != nil {
		return net.Interface{}, nil, fmt.Errorf("look for the default route: %w", err)
	}
	found, ok := usable[choose(a, links, byDefault)]
	if !ok {
		return net.Interface{}, nil, ErrNoInterface
	}
	return found, own, nil
}

// addresses returns the IPv4 addresses of the interfaces. It asks the kernel
// once for all of them: a host has an interface for each container, and
// [net.Interface.Addrs] asks as often.
func addresses(of map[int]net.Interface) ([]link, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_INET)
	if err != nil {
		return nil, os.NewSyscallError("netlinkrib", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, os.NewSyscallError("parsenetlinkmessage", err)
	}
	var out []link
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		// The message begins with family, length of the prefix, flags and
		// scope, a byte each, and the index of the interface (rtnetlink(7)).
		l := link{index: int(nativeUint32(m.Data[4:]))}
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, os.NewSyscallError("parsenetlinkrouteattr", err)
		}
		for _, attr := range attributes {
			// IFA_ADDRESS is the other end where the link has two, and such a
			// link speaks no ARP.
			if attr.Attr.Type == syscall.IFA_LOCAL && len(attr.Value) == 4 {
				l.prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte(attr.Value)), int(m.Data[1]))
			}
		}
		if _, ok := of[l.index]; ok && l.prefix.IsValid() {
			out = append(out, l)
		}
	}
	return out, nil
}

// defaultRoute returns the index of the interface of the default route, of
// those given, 0 if there is none.
func defaultRoute(of map[int]net.Interface) (int, error) {
	name, err := routeName(route.All())
	for index, i := range of {
		if i.Name == name {
			return index, err
		}
	}
	return 0, err
}

// routeName returns the name of the interface of the default route with the
// lowest metric, nothing if there is none.
func routeName(routes iter.Seq2[route.Route, error]) (string, error) {
	var best route.Route
	for r, err := range routes {
		if err != nil {
			return "", err
		}
		if r.To.Bits() == 0 && !r.Reject && (best.Interface == "" || r.Metric < best.Metric) {
			best = r
		}
	}
	return best.Interface, nil
}
