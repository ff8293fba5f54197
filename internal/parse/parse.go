// Package parse reads what engines and operators write: one function for each kind of text that several parts read.
// It refuses to know who has written the text, and what is said where it cannot be read.
package parse

import (
	"fmt"
	"net"
	"net/netip"
)

// MAC returns an Ethernet address; the zero one of a text that is none.
func MAC(text string) (mac [6]byte) {
	if hw, err := net.ParseMAC(text); err == nil && len(hw) == len(mac) {
		copy(mac[:], hw)
	}
	return mac
}

// Addr returns an address, IPv4 in 4 bytes. It is false for a text that is none, and for one with a zone, which counts on one link
// alone.
func Addr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// Subnet returns a subnet. The error says what to write instead. Host bits are refused: more often than not they are a slip.
func Subnet(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a subnet: write it like 10.50.0.0/24 or fd00:50::/64", text)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%v has bits set behind its mask: did you mean %v", p, p.Masked())
	}
	return p, nil
}

// PeerPort is the UDP and TCP port of peers where none is named. It is not 7946, which swarm mode uses on the same host.
const PeerPort = 7950

// MaxSocketPath is how many bytes the path of a unix socket has at most on Linux (unix(7)).
const MaxSocketPath = 107
