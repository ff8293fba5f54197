package arp

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// What ARP is for IPv4, messages of ICMPv6 are for IPv6 (RFC 4861).

const (
	// hopLimit tells who gets a message that no router has passed it on.
	hopLimit = 255
	// override has who gets an advertisement replace the MAC that it knows (RFC 4861, 4.4).
	override = 1 << 29
	// targetMAC is the option with the MAC of the target (RFC 4861, 4.6.1), of one unit of 8 bytes.
	targetMAC = 2
)

// allNodes is everybody on a link.
var allNodes = netip.MustParseAddr("ff02::1") //nolint:gochecknoglobals // a constant that Go cannot have

// multicastMAC returns the MAC of an IPv6 multicast address (RFC 2464, 7).
func multicastMAC(a netip.Addr) MAC {
	b := a.As16()
	return MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// solicited returns the multicast address on which who has an address is asked for it (RFC 4291, 2.7.1).
func solicited(a netip.Addr) netip.Addr {
	b, to := a.As16(), [16]byte{0: 0xff, 1: 0x02, 11: 0x01, 12: 0xff}
	copy(to[13:], b[13:])
	return netip.AddrFrom16(to)
}

// advertisementOf returns the frame with the unsolicited advertisement that an IPv6 address has a MAC (RFC 4861, 7.2.6).
func advertisementOf(a netip.Addr, mac MAC) ([]byte, error) {
	body := binary.BigEndian.AppendUint32(nil, override)
	body = append(body, a.AsSlice()...)
	body = append(body, targetMAC, 1)
	body = append(body, mac[:]...)
	return icmpFrame(multicastMAC(allNodes), mac, allNodes, a, ipv6.ICMPTypeNeighborAdvertisement, body)
}

// probe6For returns the frame that asks the one with a MAC whether it has an IPv6 address, as somebody does who would like to
// have it (RFC 4862, 5.4.2). Who has it says so to all on the link (RFC 4861, 7.2.4).
func probe6For(a netip.Addr, mac, own MAC) ([]byte, error) {
	body := append(make([]byte, 4), a.AsSlice()...)
	return icmpFrame(mac, own, solicited(a), netip.IPv6Unspecified(), ipv6.ICMPTypeNeighborSolicitation, body)
}

// icmpFrame returns the frame with a message of ICMPv6.
func icmpFrame(to, from MAC, dst, src netip.Addr, kind icmp.Type, body []byte) ([]byte, error) {
	message := icmp.Message{Type: kind, Body: &icmp.RawBody{Data: body}}
	payload, err := message.Marshal(icmp.IPv6PseudoHeader(src.AsSlice(), dst.AsSlice()))
	if err != nil {
		return nil, err
	}
	const icmpv6 = 58
	b := append(make([]byte, 0, 14+ipv6.HeaderLen+len(payload)), to[:]...)
	b = append(b, from[:]...)
	b = append(b, 0x86, 0xdd, ipv6.Version<<4, 0, 0, 0) // IPv6, without class and flow
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, icmpv6, hopLimit)
	b = append(b, src.AsSlice()...)
	b = append(b, dst.AsSlice()...)
	return append(b, payload...), nil
}
