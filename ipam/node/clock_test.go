package node

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Somebody sets the clock: it strays from the one that nobody sets, by less than what
// two readings may be apart, or by more.
func TestClock(t *testing.T) {
	for by, want := range map[time.Duration]bool{
		0: false, ipam.ClockSlack / 2: false, -ipam.ClockSlack / 2: false, time.Second: true, -time.Second: true, time.Hour: true, -24 * time.Hour: true,
	} {
		c := newClock()
		c.wall -= int64(by) // as if it had been set since
		now, set := c.read()
		if set != want || now.IsZero() {
			t.Errorf("set by %v: %v at %v", by, set, now)
		}
		if _, again := c.read(); again {
			t.Errorf("set by %v: told of twice", by)
		}
	}
}
