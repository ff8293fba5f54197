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

// A program on a host that is alone holds a lock as the host meets another cluster: it keeps the lock, and the host gives way when
// nobody holds one any more.
func TestLockKeepsAClusterApart(t *testing.T) {
	c := apartAtFirst(t, 2, 0, 1)
	low := 0
	if c.peers[1].machine.Self().Compare(c.peers[0].machine.Self()) < 0 {
		low = 1
	}
	host := 1 - low // which gives way
	cluster := func() [16]byte { return c.peers[host].machine.State().Cluster }
	own := cluster()
	r := c.ask(host, wantLock("backup", 7))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	c.heal()
	if c.meets(host, low); cluster() != own {
		t.Error("a host gives way whose program holds a lock")
	}
	if err := c.ask(host, &ipam.UnlockRequest{Name: "backup", Fence: r.Fence}).Err; err != nil {
		t.Fatal(err)
	}
	if c.meets(host, low); cluster() == own {
		t.Error("nobody holds a lock any more, and the host does not give way")
	}
}
