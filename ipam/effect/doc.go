// Package effect is what a step of the core wants done: records for the disk, frames for other peers, notes for people,
// and when to be stepped again.
//
// The core does no I/O. It says what is to be done in an [Out], and the shell does it. The order is a contract: Save
// first, in one transaction and durable, and only then Send and whatever else leaves the process. No promise leaves a
// peer before it is on disk.
//
// Every part of the core that has something to say has the same [Writer]. It owns the memory in which records are
// encoded, so that a step of a machine that runs allocates nothing for them. It tells every part the time of the step.
//
// The package refuses to know what anything means. It has no bucket, key or format of its own, asks no peer whether it
// lives, answers no call, and decides nothing. It knows the form of a frame, since a frame carries what its author
// knows when the step is done.
package effect
