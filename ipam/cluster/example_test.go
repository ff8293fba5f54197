package cluster_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A frame shows that its author is there, for some seconds.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	other, now := peer.ID{2}, time.Unix(100, 0)
	view := cluster.View{Contacts: cluster.New(&w), Self: peer.ID{1}, Name: "nas", State: &chronicle.State{}, Now: now}

	view.Hear(view, &wire.Header{From: other, Boot: 1})
	view.Introduce(view, other, "desk", 0, 1)
	fmt.Println(view.NameOf(other), view.Present(other))
	view.Now = now.Add(cluster.ReachTime)
	fmt.Println(view.NameOf(other), view.Present(other))
	// Output:
	// desk true
	// desk false
}
