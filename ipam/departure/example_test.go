package departure_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
)

// One of three peers is lost, and the other two have a majority without it.
func ExampleMayEvict() {
	var out effect.Out
	w := effect.NewWriter(&out)
	state := &chronicle.State{}
	state.Apply([]chronicle.Command{{Author: peer.ID{1}, Number: 1, Action: chronicle.Found{
		Cluster: [16]byte{9},
		Peers:   []chronicle.Founder{{ID: peer.ID{1}, Name: "nas", Boot: 1}, {ID: peer.ID{2}, Name: "desk", Boot: 1}, {ID: peer.ID{3}, Name: "pi", Boot: 1}},
	}}})
	view := cluster.View{Contacts: cluster.New(&w), Self: peer.ID{1}, Name: "nas", State: state, Now: time.Unix(100, 0)}
	view.TakePresence(view, peer.ID{2}, true, "desk", "")

	id, _ := departure.Find(view, "pi", departure.InRoster)
	err := departure.MayEvict(view, id, false)
	fmt.Println(err)
	id, _ = departure.Find(view, "desk", departure.InRoster)
	err = departure.MayEvict(view, id, false)
	fmt.Println(err)
	// Output:
	// <nil>
	// desk is reachable: use ringlet leave on that host; if it was lost just now, try again in some seconds
}
