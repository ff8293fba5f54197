package gossip

import (
	"bytes"
	"slices"
	"strings"
	"sync"
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

// TestSetKeys changes keys while others decrypt, which memberlist's key ring
// by itself does not stand: run with -race.
func TestSetKeys(t *testing.T) {
	ring, err := memberlist.NewKeyring(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, _ := logging(t)
	s := &session{g: g, keyring: ring}
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				for _, key := range ring.GetKeys() {
					_ = key[0]
				}
			}
		}
	})
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 16) }
	for range 100 {
		for _, want := range [][]byte{{1}, {1, 2}, {2, 1}, {2}, {2, 3, 4, 5}, {5, 3, 1}, {9}, {8, 9}} {
			var keys [][]byte
			for _, n := range want {
				keys = append(keys, key(n))
			}
			if err := s.setKeys(keys); err != nil {
				t.Fatal(err)
			}
			have := ring.GetKeys()
			if !bytes.Equal(have[0], keys[0]) || len(have) != len(keys) ||
				slices.ContainsFunc(keys, func(k []byte) bool { return !contains(have, k) }) {
				t.Fatalf("got %v, want %v", have, keys)
			}
		}
	}
	if err := s.setKeys(nil); err == nil || len(ring.GetKeys()) != 2 {
		t.Errorf("no keys: got %v with %d keys in use", err, len(ring.GetKeys()))
	}
	close(stop)
	reading.Wait()
}
