package space

import "encoding/hex"

// form says how a holder's name and reference lie in one string, for there may
// be a million of them: the length of the name, which comes first, and whether
// the reference, behind it, is a container's ID. Such an ID, 64 hexadecimal
// digits, takes half of its length.
type form uint16

// isPacked is the bit for a container's ID. The others are the name's length.
const isPacked form = 1 << 15

// maxName is the longest name that a record has room for, in bytes.
const maxName = int(isPacked) - 1

// idLen is the length of a container's ID in bytes, half of its digits.
const idLen = 32

// textOf returns name and reference as they are kept, and in which form. It
// takes memory only where there are both, or an ID. A longer name than
// maxName is cut.
func textOf(name, ref string) (string, form) {
	switch {
	case ref == "":
		name = name[:min(len(name), maxName)]
		return name, form(len(name))
	case name == "" && len(ref) != 2*idLen:
		return ref, 0
	}
	var buf [256]byte
	b, f := appendText(buf[:0], name, ref)
	return string(b), f
}

// appendText appends name and reference as they are kept.
func appendText[T string | []byte](b []byte, name, ref T) ([]byte, form) {
	name = name[:min(len(name), maxName)]
	f := form(len(name))
	b = append(b, name...)
	if id, ok := packID(b, ref); ok {
		return id, f | isPacked
	}
	return append(b, ref...), f
}

// split returns the name and the reference.
func (f form) split(text string) (name, ref string) {
	n := int(f &^ isPacked)
	name, ref = text[:n], text[n:]
	if f&isPacked != 0 {
		ref = hex.EncodeToString([]byte(ref))
	}
	return name, ref
}

// packID appends the bytes of a container's full ID, as the engine writes it,
// or reports that the reference is none.
func packID[T string | []byte](b []byte, ref T) ([]byte, bool) {
	if len(ref) != 2*idLen {
		return nil, false
	}
	var wrong byte
	for i := 0; i < 2*idLen; i += 2 {
		high, low := digit(ref[i]), digit(ref[i+1])
		wrong |= digits[high] ^ ref[i] | digits[low] ^ ref[i+1]
		b = append(b, high<<4|low)
	}
	return b, wrong == 0
}

const digits = "0123456789abcdef"

// digit returns the value of a hexadecimal digit, and for other bytes any from
// 0 to 15. It has no branches, which digits at random would mislead.
func digit(c byte) byte { return (c&15 + 9*(c>>6)) & 15 }
