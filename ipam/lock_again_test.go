package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A program ends its lock, which is not decided yet, and asks for it again with its token. Then another host's program asks.
func TestLockIsAskedForAsItEnds(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	order := c.order()
	first, host := order[0], order[2]
	fence := c.ask(host, wantLock("backup", 7)).Fence
	c.lose = func(flight) bool { return true }
	c.call(host, &ipam.UnlockRequest{Name: "backup", Fence: fence})
	again := c.call(host, wantLock("backup", 7))
	c.wait(100 * time.Millisecond)
	early, told := c.peers[host].replies[again]
	c.lose = func(flight) bool { return false }
	c.wait(3 * time.Second)
	other := c.ask(first, wantLock("backup", 8))
	if told && early.Err == nil && other.Err == nil {
		t.Errorf("two programs were told that they have the lock, with fences %d and %d", early.Fence, other.Fence)
	}
	if r := c.peers[host].replies[again]; r.Err != nil || r.Fence <= fence {
		t.Errorf("it asks again, and gets fence %d, %v", r.Fence, r.Err)
	}
}
