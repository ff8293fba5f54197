// Package peer names the allocators of a cluster.
//
// It refuses to know which peers there are, and what they own.
//
// A peer is known to the protocol by its [ID] alone: 16 random bytes made
// together with its database. A peer without its database is another peer.
// The name beside it, by default the host's, is for people: two peers may
// share it, and nothing is decided by it.
package peer

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// ID identifies one peer for ever. The zero ID is no peer.
type ID [16]byte

// None is the zero ID, which no peer has.
var None ID //nolint:gochecknoglobals // Go has no constant arrays

// NewID draws the ID of a peer, or of a cluster.
func NewID(random *rand.Rand) (id ID) {
	for i := range id {
		id[i] = byte(random.Uint32())
	}
	return id
}

// String returns the ID as 32 hexadecimal digits.
func (id ID) String() string {
	var digits [2 * len(id)]byte
	hex.Encode(digits[:], id[:])
	return string(digits[:])
}

// Short returns the first 8 digits, enough for people and logs.
func (id ID) Short() string { return hex.EncodeToString(id[:4]) }

// Called names a peer for people, also one that has told no name.
func (id ID) Called(name Name) string {
	if name == "" {
		return "peer " + id.Short()
	}
	return string(name)
}

// Compare orders IDs by their bytes.
func (id ID) Compare(other ID) int {
	for i := range id {
		if c := cmp.Compare(id[i], other[i]); c != 0 {
			return c
		}
	}
	return 0
}

// Parse reads what [ID.String] wrote. Upper case digits are accepted.
func Parse(s string) (ID, error) {
	var id ID
	if len(s) != hex.EncodedLen(len(id)) {
		return None, fmt.Errorf("peer ID %q has %d characters, not %d", s, len(s), hex.EncodedLen(len(id)))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return None, fmt.Errorf("peer ID %q: %w", s, err)
	}
	return id, nil
}

// Boot counts the starts of a peer's process. It is kept in the database and
// raised there before anything is sent.
type Boot uint64

// Name is what people call a peer. MaxName bytes of UTF-8 at most.
type Name string

// MaxName is the longest name, in bytes: that of a host (RFC 1035, 255).
const MaxName = 255
