package announce

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/ringlet/ringlet/plugin/arp"
)

// Wire sends packets on the interfaces of this host, in the network namespace of the process. The zero Wire is ready. It
// keeps a socket from the first packet on. Not safe for concurrent use.
type Wire struct{ sender *arp.Sender }

// Close closes the socket.
func (w *Wire) Close() error {
	if w.sender == nil {
		return nil
	}
	err := w.sender.Close()
	w.sender = nil
	return err
}

// Send is what [Config.Send] wants.
func (w *Wire) Send(p Packet) (packets int, stale bool, err error) {
	port, err := portOf(p.Link)
	if err != nil {
		return 0, false, err
	}
	if w.sender == nil {
		if w.sender, err = arp.OpenSender(); err != nil {
			return 0, false, err
		}
	}
	if port.host {
		if stale, err = staleOn(port.index, p); err != nil {
			return 0, false, err
		}
	}
	announce, ask := p.Announce, stale
	if p.Address.Is6() && port.host && announce {
		// A container that is up takes an advertisement of its address for somebody else's. Asked whether it has the address it
		// tells all on the link.
		announce, ask = p.Turn == 0, p.Turn > 0
	}
	if announce {
		if err := w.sender.Announce(port.index, p.Address, p.MAC); err != nil {
			return packets, stale, fmt.Errorf("%s: %w", port.name, err)
		}
		packets++
	}
	if ask {
		if err := w.sender.Ask(port.index, p.Address, p.MAC, port.mac); err != nil {
			return packets, stale, fmt.Errorf("%s: %w", port.name, err)
		}
		packets++
	}
	return packets, stale, nil
}

// A port is an interface on which to send.
type port struct {
	index int
	name  string
	mac   MAC
	host  bool // the host has addresses there, and is a neighbour itself
}

// portOf returns where to send for a link: the bridge; or the parent, unless the host has an interface beside those of the
// containers on it, by which it reaches all of them.
func portOf(l Link) (port, error) {
	on, err := netlink.LinkByName(l.Name)
	if err != nil {
		return port{}, fmt.Errorf("look for the interface %s: %w", l.Name, err)
	}
	if _, is := on.(*netlink.Bridge); l.Kind == Bridge && !is {
		return port{}, fmt.Errorf("the interface %s is not a bridge but of type %s", l.Name, on.Type())
	}
	if l.Kind == Parent {
		all, err := netlink.LinkList()
		if err != nil {
			return port{}, fmt.Errorf("list the interfaces: %w", err)
		}
		for _, beside := range all {
			m, is := beside.(*netlink.Macvlan)
			if is && m.ParentIndex == on.Attrs().Index && m.NetNsID < 0 && m.Mode == netlink.MACVLAN_MODE_BRIDGE && m.Flags&net.FlagUp != 0 {
				return portAt(beside, true)
			}
		}
	}
	return portAt(on, l.Kind == Bridge)
}

func portAt(on netlink.Link, host bool) (port, error) {
	a := on.Attrs()
	if len(a.HardwareAddr) != len(MAC{}) || a.Flags&net.FlagBroadcast == 0 {
		return port{}, fmt.Errorf("the interface %s is not Ethernet", a.Name)
	}
	return port{index: a.Index, name: a.Name, mac: MAC(a.HardwareAddr), host: host}, nil
}

// staleOn reports whether the kernel sends what is for the address to another MAC.
func staleOn(index int, p Packet) (bool, error) {
	family := netlink.FAMILY_V4
	if p.Address.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(index, family)
	if err != nil {
		return false, fmt.Errorf("list the neighbours: %w", err)
	}
	for _, n := range all {
		// In other states it knows no MAC, or an operator has set one.
		const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == p.Address && n.State&known != 0 {
			return len(n.HardwareAddr) == len(MAC{}) && MAC(n.HardwareAddr) != p.MAC, nil
		}
	}
	return false, nil
}
