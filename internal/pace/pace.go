// Package pace brings the timers of a process together. To wake costs an idle process more than most of what it wakes
// for, so that what is done now and then, and need not be done at an exact time, is done when something else is.
//
// It refuses to know what a timer is for.
package pace

import (
	"sync/atomic"
	"time"
)

// Period is the time between two moments at which timers end together.
const Period = 5 * time.Second

// slack is by what part of its time a timer may end sooner or later for that.
const slack = 4

// Pace is when the timers of a process end. It is safe for concurrent use. A nil Pace leaves each to itself.
type Pace struct {
	made  time.Time
	phase atomic.Int64 // of the beats, from made on
}

// New returns a pace with a beat now.
func New() *Pace { return &Pace{made: time.Now()} }

// Begin has the beats follow one that is now: of something else that has a beat of its own, which cannot be moved.
func (p *Pace) Begin() {
	if p != nil {
		p.phase.Store(int64(time.Since(p.made)))
	}
}

// Round returns about d, a quarter of it more or less at most: how long it is until a beat if there is one by then.
func (p *Pace) Round(d time.Duration) time.Duration {
	if p == nil || d <= 0 {
		return d
	}
	end := p.since() + d
	by := (end+Period/2)/Period*Period - end
	if by.Abs() > d/slack {
		return d
	}
	return d + by
}

// Within returns d, or down to half of it: how long it is until the last beat by then, if there is one.
func (p *Pace) Within(d time.Duration) time.Duration {
	if p == nil || d <= 0 {
		return d
	}
	late := (p.since() + d) % Period
	if late > d/2 {
		return d
	}
	return d - late
}

// since returns how long ago there was a beat.
func (p *Pace) since() time.Duration { return time.Since(p.made) - time.Duration(p.phase.Load()) }
