package engine_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// An engine makes a network and removes it. Only a list of networks says that it is gone.
func Example() {
	var out effect.Out
	w := effect.NewWriter(&out)
	now := time.Unix(1000, 0)
	w.Reset(now)
	e := engine.New(&w)
	e.Configure(engine.Config{Lists: true, Grace: 20 * time.Second})
	e.Start(7)

	subnet := netip.MustParsePrefix("10.50.0.0/24")
	lab := poolid.Network{Space: poolid.Local, Pool: subnet, Range: subnet}
	on := e.On(subnet)
	fmt.Println(e.Enter(lab, false), on.Has())

	now = now.Add(2 * time.Minute)
	w.Reset(now)
	e.ListNetworks(map[netip.Prefix]int{subnet: 1}, e.Mark(now))
	fmt.Println(e.Release(lab), on.Has(), e.Awaits(on), out.Note[0].Kind == effect.NoteParted)

	e.ListNetworks(nil, e.Mark(now))
	fmt.Println(on.Has(), e.Awaits(on))
	// Output:
	// true true
	// true true true true
	// false false
}
