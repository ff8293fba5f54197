package conflict_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/conflict"
)

var place = conflict.Place{Pool: chronicle.PoolKey{Slot: 2}, At: addr.Offset(7)}

// A conflict is told once, while each list shows it. A list without it ends it.
func Example() {
	c := conflict.New()
	for _, shown := range []bool{true, true, false} {
		c.Begin()
		if shown && c.Tell(place, conflict.Conflict{Text: "is used by the host too", Same: "host"}) {
			fmt.Println("told")
		}
		fmt.Println(c.Has(place))
	}
	// Output:
	// told
	// true
	// true
	// false
}

// What ends a conflict, and what does not.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		name string
		do   func(*conflict.Conflicts)
		want int
	}{
		{"nothing", func(*conflict.Conflicts) {}, 1},
		{"the list shows none", func(c *conflict.Conflicts) { c.Begin() }, 0},
		{"kept, as the list cannot tell", func(c *conflict.Conflicts) { c.Begin(); c.Keep(place, "web") }, 1},
		{"kept for another holder", func(c *conflict.Conflicts) { c.Begin(); c.Keep(place, "db") }, 0},
		{"ended", func(c *conflict.Conflicts) { c.End(place) }, 0},
		{"no warning", func(c *conflict.Conflicts) { c.EndWarned(place) }, 1},
		{"the pool goes", func(c *conflict.Conflicts) { c.DropPool(place.Pool) }, 0},
		{"another pool goes", func(c *conflict.Conflicts) { c.DropPool(chronicle.PoolKey{Slot: 3}) }, 1},
	} {
		c := conflict.New()
		c.Tell(place, conflict.Conflict{Who: "web", Same: "web, but host"})
		step.do(c)
		if got := len(maps.Collect(c.All())); got != step.want {
			t.Errorf("%s: %d conflicts, want %d", step.name, got, step.want)
		}
	}
	c := conflict.New()
	c.Tell(place, conflict.Conflict{Who: "web"})
	c.Begin()
	if first, again := c.Keep(place, "web"), c.Keep(place, "web"); !first || !again || c.Keep(place, "db") {
		t.Error("there is a conflict about web, and about nobody else")
	}
	c = conflict.New()
	c.Tell(place, conflict.Conflict{Warned: true})
	if c.EndWarned(place); c.Has(place) {
		t.Error("the warning is over, and its conflict stays")
	}
}
