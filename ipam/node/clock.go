package node

import (
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// clock reads the host's clock, and notices that somebody has set it: then it has gone
// on by another time than the clock that nobody sets.
type clock struct {
	at   time.Time // by the clock that nobody sets
	wall int64     // at that time, nanoseconds since 1970
}

func newClock() clock {
	now := time.Now()
	return clock{now, now.UnixNano()}
}

// read returns the time, and by how much somebody has set the clock since it was read last, 0
// if nobody has.
func (c *clock) read() (now time.Time, by time.Duration) {
	now = time.Now()
	if c.strays(now) == 0 {
		return now, 0
	}
	// Between its two halves a reading may have been interrupted; not twice.
	now = time.Now()
	if by = c.strays(now); by != 0 {
		c.at, c.wall = now, now.UnixNano()
	}
	return now, by
}

// strays returns how far the clock is from where it would be, 0 if that is next to nothing.
func (c *clock) strays(now time.Time) time.Duration {
	by := time.Duration(now.UnixNano()-c.wall) - now.Sub(c.at)
	if by.Abs() <= ipam.ClockSlack {
		return 0
	}
	return by
}
