package space

import (
	"encoding/binary"
	"encoding/hex"
)

// form says how a holder's name and reference lie in one string, for there may
// be a million of them: the length of the name, which comes first, and whether
// the reference, behind it, is a container's ID. Such an ID, 64 hexadecimal
// digits, takes half of its length. In a record the bits that are left say
// whether it is queued, and of what kind its holder is.
type form uint16

// maxName is the longest name that a record has room for, in bytes, and the
// bits of a form that are its length.
const maxName = 1<<8 - 1

const (
	isPacked  form = 1 << 8
	isQueued  form = 1 << 9
	kindShift      = 12
)

// formOf returns the bits of a kind, which is less than 16.
func formOf(k Kind) form { return form(k) << kindShift }

func (f form) kind() Kind { return Kind(f >> kindShift) }

// IDLen is the length of a container's ID in bytes, half of its digits.
const IDLen = 32

// textOf returns name and reference as they are kept, and in which form. It
// takes memory only where there are both, or an ID. A longer name than
// maxName is cut.
func textOf(name, ref string) (string, form) {
	switch {
	case ref == "":
		name = name[:min(len(name), maxName)]
		return name, form(len(name))
	case name == "" && len(ref) != 2*IDLen:
		return ref, 0
	}
	name = name[:min(len(name), maxName)]
	var buf [256]byte
	b, f := append(buf[:0], name...), form(len(name))
	if id, ok := AppendID(b, ref); ok {
		return string(id), f | isPacked
	}
	return string(append(b, ref...)), f
}

// split returns the name and the reference.
func (f form) split(text string) (name, ref string) {
	n := int(f & maxName)
	name, ref = text[:n], text[n:]
	if f&isPacked != 0 {
		ref = hex.EncodeToString([]byte(ref))
	}
	return name, ref
}

// AppendID appends the [IDLen] bytes of a container's full ID, as the engine
// writes it, or reports that the reference is none. It takes eight digits at a
// time.
func AppendID[T string | []byte](b []byte, ref T) ([]byte, bool) {
	if len(ref) != 2*IDLen {
		return nil, false
	}
	var wrong uint64
	for i := 0; i < 2*IDLen; i += 8 {
		text := uint64(ref[i]) | uint64(ref[i+1])<<8 | uint64(ref[i+2])<<16 | uint64(ref[i+3])<<24 |
			uint64(ref[i+4])<<32 | uint64(ref[i+5])<<40 | uint64(ref[i+6])<<48 | uint64(ref[i+7])<<56
		values := valuesOf(text)
		wrong |= digitsOf(values) ^ text
		// Two digits to a byte, and the bytes together.
		pairs := (values<<4 | values>>8) & 0x00ff00ff00ff00ff
		pairs = (pairs | pairs>>8) & 0x0000ffff0000ffff
		b = binary.LittleEndian.AppendUint32(b, uint32(pairs|pairs>>16))
	}
	return b, wrong == 0
}

// each has 1 in each of eight bytes.
const each = 0x0101010101010101

// valuesOf returns the values of eight hexadecimal digits, and for other bytes
// any from 0 to 15.
func valuesOf(text uint64) uint64 {
	letters := text >> 6 & each // 1 for a letter
	return (text&(15*each) + 9*letters) & (15 * each)
}

// digitsOf returns the digits of eight values from 0 to 15.
func digitsOf(values uint64) uint64 {
	letters := (values + 6*each) >> 4 & each // 1 for 10 and above
	return values + '0'*each + ('a'-'0'-10)*letters
}
