// Package replog is the replicated log: what the peers of a cluster have decided, slot after slot.
//
// The core calls the log its chronicle, and package chronicle says what the commands in it do. This package has the slots
// themselves. They are on disk, behind a snapshot of the state, so that a start need not begin with the first one. The
// last ones are in memory, for peers that lag. A peer that lags by more gets the state as a whole.
//
// The package refuses to know what a command means. It has no pool and no address, and it does not know what an engine
// has, which peer lives, or why a slot was decided.
package replog
