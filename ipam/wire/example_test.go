package wire_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A frame says who sent it and what that peer knows, whatever else it says.
func Example() {
	b := wire.Encode(nil, &wire.Frame{
		Header: wire.Header{Cluster: [16]byte{1}, From: peer.ID{2}, Boot: 3, Slot: 41},
		Body:   wire.Pull{After: 41},
	})
	f, err := wire.Decode(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("peer %s knows slot %d and says %+v\n", f.From.Short(), f.Slot, f.Body)

	b[0] = 9 // of a later release
	_, err = wire.Decode(b)
	fmt.Println(err)
	// Output:
	// peer 02000000 knows slot 41 and says {After:41}
	// frame of a later release: version 9
}
