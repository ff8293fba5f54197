package ipam

import "time"

// The engine's list takes a while, and containers start and stop meanwhile. No clock can say which of two came
// first: anybody may set one, and a process may be frozen. So this peer numbers what happens. Whoever is about to
// ask the engine takes the last number first, and the list carries it: what has a higher number the list says
// nothing of.

// Mark is a moment of one start of a machine: [Machine.Mark] returns it. The zero Mark is that of no start.
type Mark struct {
	nonce  uint64 // of the start: the numbers of another one say nothing
	serial uint64 // the last number that was given
	at     time.Time
}

// Mark returns the present moment, for what is about to be asked.
func (m *Machine) Mark(now time.Time) Mark { return Mark{m.nonce, m.serial, now} }

// isZero reports whether it is the mark of no start.
func (k Mark) isZero() bool { return k.nonce == 0 }

// knows reports whether what was asked after the mark tells of what has that number.
func (k Mark) knows(serial uint64) bool { return k.nonce != 0 && k.serial >= serial }

// stamp numbers what happens now. Grants and releases have the Seq of their record.
func (m *Machine) stamp() uint64 {
	m.serial++
	return m.serial
}

// moment is when something happened: by its number, and by the clock. The zero moment is never.
type moment struct {
	serial uint64 // 0: before this start
	at     time.Time
}

func (m *Machine) moment() moment { return moment{m.stamp(), m.now} }
