// Package parse reads what engines and operators write: one function for each kind of text that several parts read.
// It refuses to know who has written the text, and what is said where it cannot be read.
package parse

import (
	"net"
)

// MAC returns an Ethernet address; the zero one of a text that is none.
func MAC(text string) (mac [6]byte) {
	if hw, err := net.ParseMAC(text); err == nil && len(hw) == len(mac) {
		copy(mac[:], hw)
	}
	return mac
}
