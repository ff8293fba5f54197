package suspend_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/suspend"
)

// A database was moved. An operator who says so may go on with it.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	s := suspend.New(&w)
	_ = s.Restore(suspend.KeyPlace, []byte("one disk"))

	fmt.Println(s.TakePlace("another disk"), s.For(suspend.OtherPlace))
	fmt.Println(s.Trust("another disk"), s.Is())
	// Output:
	// true true
	// true false
}
