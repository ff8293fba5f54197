package events

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// ID names an event of one peer. The zero ID comes before all events.
type ID struct {
	Boot   uint64 // the peer's, rising with each start
	Number uint64 // from 1, within that boot
}

// ParseID reads what [ID.String] wrote.
func ParseID(s string) (ID, error) {
	boot, number, ok := strings.Cut(s, "-")
	b, err := strconv.ParseUint(boot, 10, 64)
	n, err2 := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || err2 != nil {
		return ID{}, fmt.Errorf("%q is not the ID of an event: those are like 17-42", s)
	}
	return ID{b, n}, nil
}

// String returns boot and number, as in 17-42.
func (i ID) String() string { return string(i.appendTo(nil)) }

func (i ID) appendTo(b []byte) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(b, i.Boot, 10), '-'), i.Number, 10)
}

// IsZero reports whether i comes before all events.
func (i ID) IsZero() bool { return i == ID{} }

// Compare orders the events of one peer by time.
func (i ID) Compare(j ID) int {
	return cmp.Or(cmp.Compare(i.Boot, j.Boot), cmp.Compare(i.Number, j.Number))
}

// MarshalText implements [encoding.TextMarshaler].
func (i ID) MarshalText() ([]byte, error) { return i.appendTo(nil), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *ID) UnmarshalText(text []byte) (err error) {
	*i, err = ParseID(string(text))
	return err
}
