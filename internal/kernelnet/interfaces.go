package kernelnet

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// virtual begins the names of interfaces that engines and hypervisors make for containers and virtual machines. They come and go, and
// another host may have the same addresses behind the same names.
var virtual = []string{"docker", "br-", "veth", "cni", "podman", "nerdctl", "flannel", "cali", "virbr", "lxcbr", "lxdbr", "incusbr"}

// IsVirtual reports whether an interface of that name was made for containers or virtual machines of this host.
func IsVirtual(name string) bool {
	return slices.ContainsFunc(virtual, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Interface is an interface of this host.
type Interface struct {
	net.Interface
	Addresses []netip.Prefix // not masked; of an address with another end the length is that of the address
}

// IsUp reports whether the interface is up.
func (i *Interface) IsUp() bool { return i.Flags&net.FlagUp != 0 }

// Interfaces returns the interfaces of this host with their addresses, in the order of their indexes. [net.Interface.Addrs] would ask
// the kernel once for each, and a host has one for each container.
func Interfaces() ([]Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	found, err := list(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the interfaces: %w", err)
	}
	slices.SortFunc(links, func(a, b net.Interface) int { return a.Index - b.Index })
	out := make([]Interface, len(links))
	at := make(map[int]*Interface, len(links))
	for i, link := range links {
		out[i] = Interface{Interface: link}
		at[link.Index] = &out[i]
	}
	for i := range found {
		// An interface that came between the two questions is not there yet.
		if on, p := at[found[i].LinkIndex], prefixOf(found[i].IPNet); on != nil && p.IsValid() {
			on.Addresses = append(on.Addresses, p)
		}
	}
	return out, nil
}

// Addresses returns the addresses of this host on all its interfaces, those that are down too.
func Addresses() ([]netip.Prefix, error) {
	all, err := Interfaces()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for i := range all {
		out = append(out, all[i].Addresses...)
	}
	return out, nil
}

// tries is how often a list is read again that changed while it was read. A host that starts many containers at once changes its
// lists all the time: the last try counts as it is, and the next reading has the rest.
const tries = 5

// list returns what the kernel lists.
func list[T any](read func() ([]T, error)) (found []T, err error) {
	for range tries {
		if found, err = read(); !isInterrupted(err) {
			return found, err
		}
	}
	return found, nil
}

// prefixOf returns the zero prefix for none.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, size := n.Mask.Size()
	if size == 32 {
		a = a.Unmap() // the library has 0.0.0.0 in 16 bytes
	}
	if !ok || size != a.BitLen() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits)
}
