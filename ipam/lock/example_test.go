package lock_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A lock has one holder. The next one gets a higher fence.
func Example() {
	var t lock.Table
	nas, desk := peer.ID{1}, peer.ID{2}
	fence, _ := t.Take(nas, lock.Want{Name: "backup", Holder: "nas", Token: 7}, 12)
	fmt.Println(fence)
	_, refused := t.Take(desk, lock.Want{Name: "backup", Holder: "desk", Token: 8}, 13)
	fmt.Println(refused)
	fmt.Println(t.End("backup", fence, nas))
	fence, _ = t.Take(desk, lock.Want{Name: "backup", Holder: "desk", Token: 8}, 14)
	fmt.Println(fence)
	// Output:
	// 12
	// it is held
	// true
	// 14
}
