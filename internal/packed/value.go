package packed

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/space"
)

// The forms of a value. They are in memory only.
const (
	formPlain  = 0 // as it is
	formHolder = 1 // an address and its holder
)

// What follows a holder's head, in the byte behind its form.
const (
	hasContainer = 1 << iota // 64 hexadecimal digits, as 32 bytes
	hasText                  // any other ID
	hasName
	hasMAC
	hasFraction // of a second
	hasIdentity // the number of its label set
)

// The parts of a text that tells of an address and its holder, in order.
const (
	kindPart      = `"kind":"`
	identityPart  = `,"identity":`
	containerPart = `,"container":"`
	namePart      = `,"name":"`
	macPart       = `,"mac":"`
	sincePart     = `,"since":"`
	endPart       = `"}`
)

const (
	macLength = len("02:42:0a:00:00:01")
	dateForm  = "dddd-dd-ddTdd:dd:dd" // d: a digit
)

// appendValue appends a value as it is kept. Only one that can be put together
// again to the very same text is taken apart.
func (l *Log) appendValue(b, value []byte) []byte {
	from := len(b)
	if b, ok := l.appendHolder(b, value); ok {
		return b
	}
	return append(append(b[:from], formPlain), value...)
}

func (l *Log) appendHolder(b, text []byte) (_ []byte, ok bool) {
	kind := bytes.Index(text, []byte(kindPart))
	if kind < 0 {
		return b, false
	}
	kind += len(kindPart)
	end := bytes.IndexByte(text[kind:], '"')
	if end < 0 {
		return b, false
	}
	head, rest := text[:kind+end+1], text[kind+end+1:]
	id, known := l.word(head)
	if !known {
		return b, false
	}
	b = append(b, formHolder, 0)
	flags := len(b) - 1
	b = binary.AppendUvarint(b, uint64(id))
	if part, after, there := member(rest, containerPart); there {
		rest = after
		if id, packed := space.AppendID(b, part); packed {
			b = id
			b[flags] |= hasContainer
		} else {
			b = codec.Bytes(b, part)
			b[flags] |= hasText
		}
	}
	if part, after, there := member(rest, namePart); there {
		rest = after
		b = codec.Bytes(b, part)
		b[flags] |= hasName
	}
	if part, after, there := member(rest, macPart); there {
		rest = after
		if b, ok = appendMAC(b, part); !ok {
			return b, false
		}
		b[flags] |= hasMAC
	}
	if digits, there := bytes.CutPrefix(rest, []byte(identityPart)); there {
		if b, rest, ok = appendIdentity(b, digits); !ok {
			return b, false
		}
		b[flags] |= hasIdentity
	}
	part, after, there := member(rest, sincePart)
	if !there || len(after) != 1 || after[0] != '}' {
		return b, false
	}
	return appendTime(b, flags, part)
}

// member takes a member apart that text may begin with.
func member(text []byte, name string) (value, after []byte, there bool) {
	if len(text) < len(name) || string(text[:len(name)]) != name {
		return nil, text, false
	}
	text = text[len(name):]
	end := bytes.IndexByte(text, '"')
	if end < 0 {
		return nil, text, false
	}
	return text[:end], text[end+1:], true
}

func appendMAC(b, mac []byte) (_ []byte, ok bool) {
	if len(mac) != macLength {
		return b, false
	}
	for i := 0; i < macLength; i += 3 {
		high, low := digit(mac[i]), digit(mac[i+1])
		if high|low > 0xf || i+2 < macLength && mac[i+2] != ':' {
			return b, false
		}
		b = append(b, high<<4|low)
	}
	return b, true
}

// appendIdentity appends the number with which text begins, as it is written by strconv.
func appendIdentity(b, text []byte) (_, rest []byte, ok bool) {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	number, err := strconv.ParseUint(string(text[:n]), 10, 64)
	if err != nil || n > 1 && text[0] == '0' {
		return b, text, false
	}
	return binary.AppendUvarint(b, number), text[n:], true
}

// digit is the value of a small hexadecimal digit, more than 15 for all else.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// appendTime appends a time of UTC by its digits: that it is one matters to
// nobody here.
func appendTime(b []byte, flags int, text []byte) (_ []byte, ok bool) {
	n := len(dateForm)
	if len(text) <= n || text[len(text)-1] != 'Z' {
		return b, false
	}
	date, fraction := text[:n], text[n:len(text)-1]
	var number uint64
	for i, c := range date {
		switch isDigit := '0' <= c && c <= '9'; {
		case dateForm[i] == 'd' && isDigit:
			number = 10*number + uint64(c-'0')
		case dateForm[i] == 'd' || dateForm[i] != c:
			return b, false
		}
	}
	b = binary.AppendUvarint(b, number)
	if len(fraction) == 0 {
		return b, true
	}
	if len(fraction) > 10 || fraction[0] != '.' {
		return b, false
	}
	number = 0
	for _, c := range fraction[1:] {
		if c < '0' || '9' < c {
			return b, false
		}
		number = 10*number + uint64(c-'0')
	}
	b[flags] |= hasFraction
	return binary.AppendUvarint(append(b, byte(len(fraction)-1)), number), true
}

// appendText appends the value that [Log.appendValue] has packed.
func (l *Log) appendText(b, packed []byte) []byte {
	if packed[0] == formPlain {
		return append(b, packed[1:]...)
	}
	flags, rest := packed[1], packed[2:]
	id, rest := number(rest)
	b = append(b, l.words[id]...)
	switch {
	case flags&hasContainer != 0:
		b = append(hex.AppendEncode(append(b, containerPart...), rest[:space.IDLen]), '"')
		rest = rest[space.IDLen:]
	case flags&hasText != 0:
		b, rest = appendMember(b, containerPart, rest)
	}
	if flags&hasName != 0 {
		b, rest = appendMember(b, namePart, rest)
	}
	if flags&hasMAC != 0 {
		b = append(b, macPart...)
		for i, c := range rest[:6] {
			if i > 0 {
				b = append(b, ':')
			}
			b = append(b, digits[c>>4], digits[c&0xf])
		}
		b, rest = append(b, '"'), rest[6:]
	}
	if flags&hasIdentity != 0 {
		var identity uint64
		identity, rest = number(rest)
		b = strconv.AppendUint(append(b, identityPart...), identity, 10)
	}
	b = append(b, sincePart...)
	date, rest := number(rest)
	b = append(b, dateForm...)
	at := len(b)
	for i := len(dateForm) - 1; i >= 0; i-- {
		at--
		if dateForm[i] == 'd' {
			b[at] = digits[date%10]
			date /= 10
		}
	}
	if flags&hasFraction != 0 {
		n := int(rest[0])
		fraction, _ := number(rest[1:])
		b = append(append(b, '.'), "000000000"[:n]...)
		for i := len(b) - 1; n > 0; i, n = i-1, n-1 {
			b[i] = digits[fraction%10]
			fraction /= 10
		}
	}
	return append(append(b, 'Z'), endPart...)
}

const digits = "0123456789abcdef"

func appendMember(b []byte, name string, packed []byte) (_, rest []byte) {
	n, rest := number(packed)
	return append(append(append(b, name...), rest[:n]...), '"'), rest[n:]
}

// number reads a number that this package has written.
func number(b []byte) (uint64, []byte) {
	v, n := binary.Uvarint(b)
	return v, b[n:]
}
