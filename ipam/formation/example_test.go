package formation_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/peer"
)

// The first host of all founds a cluster at once. A host that was told to join does not.
func Example() {
	for _, join := range []bool{false, true} {
		var out effect.Out
		w := effect.NewWriter(&out)
		w.Reset(time.Unix(100, 0))
		self := peer.ID{1}
		view := cluster.View{Contacts: cluster.New(&w), Self: self, State: &chronicle.State{}, Now: w.Now()}

		seeker := formation.NewSeeker(&w)
		seeker.Configure(formation.Config{Join: join, Rand: rand.New(rand.NewPCG(1, 2))})
		seeker.Start(self)
		alone := seeker.Begin(false)
		_, founds := seeker.Found(view, chronicle.Founder{ID: self, Name: "nas", Boot: 1})
		fmt.Println(alone, founds)
	}
	// Output:
	// true true
	// false false
}
