package chronicle

import "fmt"

// Level counts the versions of what peers have to understand alike: which
// commands a slot may hold, what they do, and how a state is written. The
// levels from 1 on are never changed; a release that needs something new adds
// one.
//
// The level that a cluster uses is part of its state, and rises by [Raise]
// alone. So all peers change at the same slot, and a slot holds nothing that
// belongs to a later level than that of the state before it. A peer that does
// not speak the level of the state cannot know what follows, and stops there.
type Level uint32

// Spoken is the highest level that this release speaks. It speaks all below it
// as well.
const Spoken Level = 2

// usedOnce is the level from which on an ID is used once: see [State.UsedUp].
const usedOnce Level = 2

// WithLocks is the level from which on slots may have label sets and locks: a peer of an earlier one could not follow them.
const WithLocks Level = 2

// WithZones is the level from which on slots may have what names zones, likewise.
const WithZones Level = 2

// WithOneDrain is the level from which on a peer sets its own phase alone, step by step, and one drains at a time (R76).
const WithOneDrain Level = 2

// WithAway is the level from which on who makes a pool says which peers get no part of it, likewise.
const WithAway Level = 2

// Raise has the cluster use a level above the present one. Whoever proposes it
// knows that all of the roster speak it; who joins or comes back without
// speaking it has to be upgraded.
type Raise struct{ Level Level }

func (Raise) opcode() byte { return 19 }

// String names the action.
func (a Raise) String() string { return fmt.Sprintf("raise the level to %d", a.Level) }

func (s *State) raise(a Raise) (refused string) {
	if a.Level <= s.Level {
		return fmt.Sprintf("the level is %d", s.Level)
	}
	s.Level = a.Level
	return ""
}

// Known reports whether this release knows all actions of the batch.
func Known(batch []Command) bool {
	for _, c := range batch {
		if _, unknown := c.Action.(Unknown); unknown {
			return false
		}
	}
	return true
}
