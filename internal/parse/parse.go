// Package parse reads what engines and operators write: one function for each kind of text that several parts read.
// It refuses to know who has written the text, and what is said where it cannot be read.
package parse

import (
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

// MaxSocketPath is how many bytes the path of a unix socket has at most on Linux (unix(7)).
const MaxSocketPath = 107
