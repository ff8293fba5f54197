package engine

import "time"

// The engine's list takes a while, and containers start and stop meanwhile. No clock can say which of two came
// first: anybody may set one, and a process may be frozen. So a peer numbers what happens. Whoever is about to
// ask the engine takes the last number first, and the list carries it: what has a higher number the list says
// nothing of (R65).

// Mark is a moment of one start of a peer. The zero Mark is that of no start.
type Mark struct {
	Nonce  uint64 // of the start: the numbers of another one say nothing
	Serial uint64 // the last number that was given
	At     time.Time
}

// IsZero reports whether it is the mark of no start.
func (k Mark) IsZero() bool { return k.Nonce == 0 }

// Knows reports whether what was asked after the mark tells of what has that number.
func (k Mark) Knows(serial uint64) bool { return k.Nonce != 0 && k.Serial >= serial }

// Moment is when something happened: by its number, and by the clock. The zero Moment is never.
type Moment struct {
	Serial uint64 // 0: before this start
	At     time.Time
}

// Mark returns the present moment, for what is about to be asked.
func (e *Engine) Mark(now time.Time) Mark { return Mark{e.nonce, e.serial, now} }

// Stamp numbers what happens now. Grants and releases have the Seq of their record.
func (e *Engine) Stamp() uint64 {
	e.serial++
	return e.serial
}

// Serial returns the last number that was given.
func (e *Engine) Serial() uint64 { return e.serial }

// Counter returns where the numbers are counted, for spaces that number their grants.
func (e *Engine) Counter() *uint64 { return &e.serial }

func (e *Engine) moment() Moment { return Moment{e.Stamp(), e.out.Now()} }

// ClockSlack is how far the clock may be off what it should show before somebody has
// set it: two readings at one moment are not quite at one.
const ClockSlack = 50 * time.Millisecond

// SetClock notes since when nobody has set the clock, or frozen the process, as far as is known: what was noted before has
// another clock's times (R66).
func (e *Engine) SetClock(at time.Time) { e.clockSet = at }

// ClockSet returns that; zero for long enough.
func (e *Engine) ClockSet() time.Time { return e.clockSet }

// SureSince returns since when something is held, reserved or asked for that was noted
// at a time of the clock, as far as is certain: later where the peer was disturbed.
func (e *Engine) SureSince(at time.Time) time.Time {
	if at.Before(e.clockSet) || at.After(e.out.Now().Add(ClockSlack)) {
		return e.clockSet
	}
	return at
}

// age returns for how long that is so.
func (e *Engine) age(at time.Time) time.Duration { return e.out.Now().Sub(e.SureSince(at)) }
