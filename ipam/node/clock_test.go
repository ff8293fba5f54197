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
		now, told := c.read()
		if (told != 0) != want || want && (told-by).Abs() > ipam.ClockSlack || now.IsZero() {
			t.Errorf("set by %v: told of %v at %v", by, told, now)
		}
		if _, again := c.read(); again != 0 {
			t.Errorf("set by %v: told of twice", by)
		}
	}
}
