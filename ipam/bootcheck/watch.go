package bootcheck

import (
	"time"

	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
)

// Slumber is how far a clock is ahead at least of where it would be before the host is taken for one that was
// suspended. In less nobody can be evicted and forgotten: a peer that was heard from so lately is there.
const Slumber = cluster.ReachTime

const (
	watchEvery = Slumber
	// watches are how many alarms pass before no engine waits any more for what it was granted.
	watches = 4
)

// Watch tells from steps that come late that the process was frozen. Where no other alarm wakes the machine soon, it
// has one for as long as the engine may wait for what it was granted. A [Check] has one.
type Watch struct {
	out   *effect.Writer
	due   time.Time // when the machine is to be stepped again, or should be; a step that comes much later has slept
	left  int       // how many alarms are left
	next  time.Time // the next one
	nanos int64     // that in nanoseconds since 1970, 0: there is none; to have one of the two costs a pair 4 %
}

// Granted begins with the alarms anew, since something was granted.
func (w *Watch) Granted() { w.left = watches }

// Late returns by how much this step comes later than the last one wished. It is not positive if it does not.
func (w *Watch) Late() (late time.Duration) {
	if w.nanos != 0 {
		late = time.Duration(w.out.Nanos() - w.nanos)
	}
	if !w.due.IsZero() {
		late = max(late, w.out.Now().Sub(w.due))
	}
	return late
}

// Forget forgets when the next alarm is: somebody has set the clock.
func (w *Watch) Forget() { w.nanos = 0 }

// Expect takes note of when the machine is to be stepped next: at wake, or at tend where that is earlier. Zero is never. It
// asks for the next alarm, if any is left.
func (w *Watch) Expect(wake, tend time.Time) {
	if !wake.IsZero() && wake.Before(w.out.Now()) {
		// It is overdue, as a call is whose time ran out in a freeze, until an alarm has it tried again. The freeze was
		// noticed in this step: the next one is late by what has passed since, or each would take it for another freeze.
		wake = w.out.Now()
	}
	if wake.IsZero() || !tend.IsZero() && tend.Before(wake) {
		wake = tend
	}
	w.due = wake
	if w.IsOn() {
		w.keep()
	}
}

// IsOn reports whether alarms are left.
func (w *Watch) IsOn() bool { return w.left > 0 || w.nanos != 0 }

// keep asks for the next alarm, unless the machine is stepped soon anyway.
func (w *Watch) keep() {
	switch {
	case !w.due.IsZero() && w.due.Sub(w.out.Now()) < watchEvery:
		w.nanos = 0
		return
	case w.nanos == 0, w.out.Nanos() >= w.nanos:
		if w.left--; w.left < 0 {
			w.left, w.nanos = 0, 0
			return
		}
		w.next = w.out.Now().Add(watchEvery)
		w.nanos = w.next.UnixNano()
	}
	w.out.WakeAt(w.next)
}
