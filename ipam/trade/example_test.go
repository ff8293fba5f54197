package trade_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A peer asks the owners of a range, one at a time, until one grants something or all have refused.
func Example() {
	h := newHost(peer.ID{1}, peer.ID{1}, peer.ID{2}, peer.ID{3})
	h.own(peer.ID{2}, 0, 100)
	h.own(peer.ID{3}, 100, 200)
	want := addr.Range{Start: 0, End: 256}

	for {
		is := h.trade.Ask(h.pool, wire.WantSpace, want, 0, h.now)
		if is.Refused {
			fmt.Println("refused by all:", is.Answer.Verdict == wire.RefusedFull)
			return
		}
		q := h.asked()
		fmt.Println("waits for", is.Waits[0] == q.to, "of", len(is.Waits))
		h.trade.TakeAnswer(q.to, wire.Answer{ID: q.ID, Verdict: wire.RefusedFull})
	}
	// Output:
	// waits for true of 1
	// waits for true of 1
	// refused by all: true
}
