package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A peer has been told that a slot was decided with a value that nobody can read: it hands out nothing and says so. After a
// start it does the same, and takes in releases: it did not start any more.
func TestUnreadableSlotAfterAStart(t *testing.T) {
	c, _ := lab(t)
	c.say(2, 0, wire.Decided{First: c.peers[2].machine.State().Slot + 1, Values: [][]byte{{0xff, 1}}}, func(*wire.Header) {})
	if v := c.status(2).Verdict; v != ipam.Failed {
		t.Fatalf("the verdict is %s", v)
	}
	c.forked = true // what it makes of the slot is its own
	c.silence(2)
	c.start(2)
	c.wait(5 * time.Second)
	if s := c.status(2); s.Verdict != ipam.Failed {
		t.Errorf("after a start: %s, %+v", s.Verdict, s.Problems)
	}
}
