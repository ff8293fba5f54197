package gossip

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

// Keys in another order behind the first one are in use once and for all, and
// not set anew, with a line in the log, each time that they are read.
func TestKeysInAnotherOrder(t *testing.T) {
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }
	g, log := logging(t)
	ring, err := memberlist.NewKeyring([][]byte{key(1), key(2)}, key(1))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{g: g, keyring: ring}
	want := [][]byte{key(1), key(3), key(2)} // the new key second, as the manual says
	for range 5 {
		if err := s.setKeys(want); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "keys changed"); n != 1 {
		t.Errorf("%d lines say that the keys have changed, and they have once", n)
	}
}
