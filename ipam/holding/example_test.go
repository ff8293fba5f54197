package holding_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/holding"
	"github.com/ringlet/ringlet/ipam/space"
)

// What is written down can be read back, and the key says of which address it is.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	web := space.Holder{Kind: space.Container, Name: "web", Ref: "4f3a"}
	holding.Save(&w, chronicle.PoolKey{Slot: 7}, 9, &web, space.Held, 3, time.Unix(100, 0).UnixNano())

	pool, o, err := holding.ParseKey(out.Save[0].Key)
	fmt.Println(pool.Slot, o, err)
	var rec space.Record
	name, ref, packed, err := holding.Parse(out.Save[0].Value, &rec)
	fmt.Println(rec.State, rec.Kind, string(name), string(ref), packed, err)
	// Output:
	// 7 9 <nil>
	// held container web 4f3a false <nil>
}
