package events

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names an event of one peer. The zero ID comes before all events.
type ID struct {
	Boot   uint64 // the peer's, rising with each start
	Number uint64 // from 1, within that boot
	Start  uint32 // drawn by each start: a new database counts its boots anew, and two copies of one alike
}

// ParseID reads what [ID.String] wrote.
func ParseID(s string) (ID, error) {
	boot, number, ok := strings.Cut(s, "-")
	number, start, drawn := strings.Cut(number, "-")
	if !drawn { // as it was before starts were told apart
		start = "0"
	}
	b, err := strconv.ParseUint(boot, 10, 64)
	n, err2 := strconv.ParseUint(number, 10, 64)
	d, err3 := strconv.ParseUint(start, 16, 32)
	if !ok || err != nil || err2 != nil || err3 != nil {
		return ID{}, fmt.Errorf("%q is not the ID of an event: those are like 17-42-9e3779b9", s)
	}
	return ID{b, n, uint32(d)}, nil
}

// String returns boot, number and what the start has drawn, as in 17-42-9e3779b9.
func (i ID) String() string { return string(i.appendTo(nil)) }

func (i ID) appendTo(b []byte) []byte {
	b = strconv.AppendUint(append(strconv.AppendUint(b, i.Boot, 10), '-'), i.Number, 10)
	if i.Start == 0 {
		return b
	}
	return strconv.AppendUint(append(b, '-'), uint64(i.Start), 16)
}

// IsZero reports whether i comes before all events.
func (i ID) IsZero() bool { return i == ID{} }

// Plus returns the ID of the event that comes n after i, in the same start.
func (i ID) Plus(n uint64) ID {
	i.Number += n
	return i
}

// MarshalText implements [encoding.TextMarshaler].
func (i ID) MarshalText() ([]byte, error) { return i.appendTo(nil), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *ID) UnmarshalText(text []byte) (err error) {
	*i, err = ParseID(string(text))
	return err
}
