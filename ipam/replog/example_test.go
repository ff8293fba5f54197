package replog_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/replog"
)

// A peer that lags gets the values that it lacks.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	log := replog.NewSlots(&w, 0)
	for slot, value := range []string{"found", "open", "close"} {
		log.Append(uint64(slot+1), []byte(value))
	}
	values, all := log.After(1)
	fmt.Printf("%s %v\n", values, all)
	fmt.Println(len(out.Save), "records to be written first")
	// Output:
	// [open close] true
	// 3 records to be written first
}
