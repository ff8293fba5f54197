package start_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/start"
)

// A peer keeps its ID over a restart. The number of its start rises.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	w.Reset(time.Unix(100, 0))
	random := rand.New(rand.NewPCG(1, 1))

	first := start.New(&w)
	first.Begin(random)
	first.Save(first.Boot(), "nas", 0)
	second := start.New(&w)
	if err := second.Restore(start.KeySelf, out.Save[0].Value); err != nil {
		fmt.Println(err)
	}
	second.Begin(random)
	fmt.Println(second.ID() == first.ID(), first.Boot(), second.Boot(), second.Is(first.Boot(), first.Nonce()))
	// Output:
	// true 1 2 false
}
