package newdb_test

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/start"
)

// A host begins with a new database. Its engine lists what it has.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	w.Reset(time.Unix(0, 0))
	e := engine.New(&w)
	e.Configure(engine.Config{Lists: true})
	db := newdb.New(&w, e, start.New(&w))
	db.Configure(newdb.Config{Untaken: func() bool { return false }})

	db.Begin(false)
	fmt.Println(db.AwaitsOwn())
	db.TakeList()
	fmt.Println(db.AwaitsOwn())
	// Output:
	// true
	// false
}
