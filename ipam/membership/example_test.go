package membership_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/membership"
	"github.com/ringlet/ringlet/ipam/suspend"
)

// A peer whose space was given up starts with its old database: it takes part in nothing.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	s := membership.New(&w, engine.New(&w))
	fmt.Println("a new peer: suspended", s.IsSuspended(), "- takes part", s.TakesPart())

	if err := s.Suspension.Restore(suspend.KeyGivenUp, []byte("its addresses were released")); err != nil {
		fmt.Println(err)
	}
	fmt.Println("given up: suspended", s.IsSuspended(), "- takes part", s.TakesPart(), "because", s.Suspension.Why())
	// Output:
	// a new peer: suspended false - takes part true
	// given up: suspended true - takes part false because its addresses were released
}
