package replica_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

// Two peers compare what they have, and then have the same.
func Example() {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	a, b := replica.New(peer.ID{1}, 1), replica.New(peer.ID{2}, 1)
	a.Renew(now)
	b.Renew(now)
	a.Set("node/a", []byte(`{"name":"host-a"}`))

	said := []replica.Message{b.Hashes(false)}
	for to, from := a, b; len(said) > 0; to, from = from, to {
		var answers []replica.Message
		for _, m := range said {
			fmt.Printf("%T\n", m)
			more, _ := to.Take(m, now)
			answers = append(answers, more...)
		}
		said = answers
	}
	for _, record := range b.Get("node/a", now) {
		fmt.Printf("%s %s, says %s\n", record.Key, record.Value, record.Origin.Short())
	}
	fmt.Println(a.Digest() == b.Digest())
	// Output:
	// replica.Hashes
	// replica.Vector
	// replica.Want
	// replica.Vector
	// replica.Pages
	// replica.Want
	// replica.Pages
	// node/a {"name":"host-a"}, says 01000000
	// true
}
