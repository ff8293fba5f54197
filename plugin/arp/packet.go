package arp

import (
	"encoding/binary"
	"net/netip"
)

// MAC is an Ethernet address; the zero MAC is none.
type MAC = [6]byte

// The operations of a packet (RFC 826).
const (
	request = 1
	reply   = 2
)

// packetLen is the length of a packet for IPv4 on Ethernet. Frames are padded,
// so what comes may be longer.
const packetLen = 28

// packet is an ARP packet for IPv4 on Ethernet, behind the frame's header.
type packet struct {
	op        uint16
	senderMAC MAC
	sender    netip.Addr // 0.0.0.0 in a probe
	targetMAC MAC
	target    netip.Addr
}

// head is how each packet begins: hardware Ethernet, protocol IPv4, and the
// lengths of their addresses.
var head = [...]byte{0, 1, 0x08, 0x00, 6, 4}

// encode returns the packet as it goes out. Both addresses are IPv4.
func (p packet) encode() []byte {
	b := append(make([]byte, 0, packetLen), head[:]...)
	b = binary.BigEndian.AppendUint16(b, p.op)
	b = append(b, p.senderMAC[:]...)
	b = append(b, p.sender.AsSlice()...)
	b = append(b, p.targetMAC[:]...)
	return append(b, p.target.AsSlice()...)
}

// decode reads a packet, and reports false for what is none for IPv4 on
// Ethernet.
func decode(b []byte) (p packet, ok bool) {
	if len(b) < packetLen || [6]byte(b) != head {
		return packet{}, false
	}
	p.op = binary.BigEndian.Uint16(b[6:])
	p.senderMAC = MAC(b[8:])
	p.sender = netip.AddrFrom4([4]byte(b[14:]))
	p.targetMAC = MAC(b[18:])
	p.target = netip.AddrFrom4([4]byte(b[24:]))
	return p, p.op == request || p.op == reply
}

// probeFor returns the probe that asks who has an address.
func probeFor(a netip.Addr, from MAC) packet {
	return packet{op: request, senderMAC: from, sender: netip.IPv4Unspecified(), target: a}
}

// announcementOf returns the announcement that an address has a MAC (RFC 5227, 1.1 and 3): a request for the address, from
// the address. RFC 826 has whoever knows the sender take over its MAC.
func announcementOf(a netip.Addr, mac MAC) packet {
	return packet{op: request, senderMAC: mac, sender: a, target: a}
}

// everybody is the destination of a broadcast.
var everybody = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} //nolint:gochecknoglobals // a constant that Go cannot have

// frame returns the packet behind an Ethernet header.
func (p packet) frame(to, from MAC) []byte {
	b := append(make([]byte, 0, 14+packetLen), to[:]...)
	b = append(b, from[:]...)
	b = append(b, 0x08, 0x06) // ARP
	return append(b, p.encode()...)
}

// claims reports whether the sender of the packet has the address, or is about
// to take it: it sends from it, or probes for it as we do (RFC 5227, 2.1.1).
func (p packet) claims(a netip.Addr) bool {
	return p.sender == a || p.op == request && p.sender.IsUnspecified() && p.target == a
}
