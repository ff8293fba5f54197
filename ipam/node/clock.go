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

// read returns the time, and whether somebody has set the clock since it was read last.
func (c *clock) read() (now time.Time, set bool) {
	now = time.Now()
	if !c.strays(now) {
		return now, false
	}
	// Between its two halves a reading may have been interrupted; not twice.
	if now = time.Now(); !c.strays(now) {
		return now, false
	}
	c.at, c.wall = now, now.UnixNano()
	return now, true
}

func (c *clock) strays(now time.Time) bool {
	return (time.Duration(now.UnixNano()-c.wall) - now.Sub(c.at)).Abs() > ipam.ClockSlack
}
