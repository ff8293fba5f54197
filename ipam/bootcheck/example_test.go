package bootcheck_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// One of three peers starts. The answer of another one makes a majority.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	now := time.Unix(100, 0)
	w.Reset(now)
	self, other := peer.ID{1}, peer.ID{2}
	state := &chronicle.State{}
	state.Apply([]chronicle.Command{{Author: self, Number: 1, Action: chronicle.Found{
		Cluster: [16]byte{9},
		Peers:   []chronicle.Founder{{ID: self, Name: "nas", Boot: 1}, {ID: other, Name: "desk", Boot: 1}, {ID: peer.ID{3}, Name: "pi", Boot: 1}},
	}}})
	view := cluster.View{Contacts: cluster.New(&w), Self: self, State: state, Now: now}

	check := bootcheck.New(&w)
	check.Begin(self, bootcheck.Wait(20*time.Second), 7)
	fmt.Println(check.Look(view, false, false, false))
	view.Hear(view, &wire.Header{From: other, Cluster: state.Cluster, Slot: state.Slot})
	check.Take(other, 7, state.Slot, false)
	fmt.Println(check.Look(view, false, false, false))
	// Output:
	// false
	// true
}
