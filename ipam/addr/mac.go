package addr

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// MAC is an Ethernet address; the zero MAC is none.
type MAC [6]byte

// Lengths of a MAC as text.
const (
	macLen    = len("00:00:00:00:00:00")
	dottedLen = len("0000.0000.0000")
)

// IsZero reports whether there is no MAC.
func (m MAC) IsZero() bool { return m == MAC{} }

// String returns the MAC as six hexadecimal pairs, or nothing for the zero MAC.
func (m MAC) String() string {
	if m.IsZero() {
		return ""
	}
	const digits = "0123456789abcdef"
	b := make([]byte, 0, macLen)
	for i, x := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, digits[x>>4], digits[x&15])
	}
	return string(b)
}

// Is reports whether a text is this MAC as people write one, in either case:
// 02:42:0a:32:00:15, 02-42-0a-32-00-15 or 0242.0a32.0015.
func (m MAC) Is(text string) bool {
	if m.IsZero() || len(text) != macLen && len(text) != dottedLen {
		return false
	}
	return strings.EqualFold(macDigits.Replace(text), fmt.Sprintf("%x", m[:]))
}

var macDigits = strings.NewReplacer(":", "", "-", "", ".", "") //nolint:gochecknoglobals // a constant that Go cannot compute

// IsMAC reports whether a text is a MAC in one of the forms that people write.
func IsMAC(text string) bool {
	b, err := hex.DecodeString(macDigits.Replace(text))
	return err == nil && len(b) == len(MAC{}) && MAC(b).Is(text)
}
