package effect_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A step says what it wants done, and the shell does it in the order of the fields.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)

	w.Reset(time.Unix(40, 0)) // a step begins
	w.Put("identity", "label", []byte("home"))
	w.Send(peer.ID{2}, wire.Pull{After: 41})
	w.WakeAt(time.Unix(50, 0))
	w.WakeAt(time.Unix(60, 0))
	w.Post(wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: 41})

	for _, r := range out.Save {
		fmt.Printf("write %s %s = %s\n", r.Bucket, r.Key, r.Value)
	}
	for _, s := range out.Send {
		f, err := wire.Decode(s.Frame)
		fmt.Printf("to %s: %+v %v\n", s.To.Short(), f.Body, err)
	}
	fmt.Println("again at", out.WakeAt.Unix())
	// Output:
	// write identity label = home
	// to 02000000: {After:41} <nil>
	// again at 50
}
