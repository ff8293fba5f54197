// Package ipam decides which address goes to whom. It is a library of
// decisions: a [Machine] takes one event at a time and answers with effects,
// and has no goroutine, lock, clock, disk or network inside. The same events
// make the same effects, in production as in the simulator.
//
// # What it brings together
//
// The chronicle (package chronicle) is what the whole cluster agrees on, slot
// after slot: pools, their rings, the roster, reservations. Each slot is
// decided by a run of Paxos (package paxos). The space (package space) is what
// only this peer knows: which addresses of its own ranges are held, which
// rest, which were never used. The ring says whose an address is; the space,
// what became of it.
//
// An address is handed out from local state, in one write to this peer's disk.
// Moving space between owners needs a slot, and is done ahead of need.
//
// # Order
//
// [Effects] are a contract: first Save, durable and in one commit, then
// everything else. No address, promise or answer leaves the peer before it is
// on disk. If Save fails the machine is ahead of the disk and must be thrown
// away.
//
// # Invariants
//
// Numbered as in the protocol; [Machine.Check] tests those that one peer can
// see, and a broken one stops the handing out, not the process.
//
//   - I1 For each address: if one peer may hand it out or holds it, no other
//     peer may hand it out or holds it.
//   - I2 The ring of a pool covers it exactly.
//   - I3 A slot has one decided value.
//   - I4 Peers that know the same last slot have equal state.
//   - I5 A held address lies in a range of its holder's peer, or that peer was
//     forgotten.
//   - I6 Every address neither held, reserved nor quarantined can be obtained.
//   - I7 No command has effect twice.
//   - I8 Held, resting, ready, free, reserved and quarantined addresses add up
//     to the pool.
//   - I9 No number of an identity is given twice; no set has two.
//   - I10 A lock has at most one holder, and the fences of its holders rise.
//
// A Machine is not safe for concurrent use; ipam/node gives it one owner.
package ipam
