package leave_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/leave"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A peer that owns nothing is retired once it drains.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	state := &chronicle.State{}
	state.Apply([]chronicle.Command{{Author: peer.ID{1}, Number: 1, Action: chronicle.Found{
		Cluster: [16]byte{9}, Peers: []chronicle.Founder{{ID: peer.ID{1}, Name: "nas", Boot: 1}, {ID: peer.ID{2}, Name: "desk", Boot: 1}},
	}}})
	view := cluster.View{Contacts: cluster.New(&w), Self: peer.ID{1}, State: state}

	wish := leave.New(&w)
	wish.Leave(false)
	fmt.Println(wish.Next(view, false)[1])
	fmt.Println(wish.Next(view, true)[0])
	// Output:
	// set 01000000 draining
	// retire 01000000
}
