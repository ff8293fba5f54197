package peer

import (
	"errors"
	"fmt"
	"strings"
)

// Zone names what fails as one, such as a rack, a room or a site. The empty zone is that of all peers that have named none.
type Zone string

// MaxZone is the longest zone, in bytes.
const MaxZone = 64

// Check reports why a text is no zone. One has at most [MaxZone] bytes of UTF-8, without spaces, commas and control
// characters. What is asked here is asked of bytes alone: the tables of Unicode differ between releases, and peers of all
// releases have to agree on what a command does.
func (z Zone) Check() error {
	if len(z) > MaxZone {
		return fmt.Errorf("it has %d bytes", len(z))
	}
	if strings.ToValidUTF8(string(z), "") != string(z) {
		return errors.New("it is not UTF-8")
	}
	for _, b := range []byte(z) {
		if b <= ' ' || b == ',' || b == 0x7f {
			return fmt.Errorf("it contains %q", rune(b))
		}
	}
	return nil
}
