// Package chronicle is what the whole cluster agrees on: a sequence of slots,
// each of them a batch of commands, and the [State] that they make.
//
// It refuses to know how a slot is decided, and which addresses are in use.
//
// The state is a deterministic function of slots 1..n and nothing else: every
// ring, the roster, pools, names and reservations. Peers that know the same
// last slot have equal state, bit for bit (invariant I4), and [State.Digest]
// lets them notice if a bug made it otherwise.
//
// How a slot is agreed is not known here (package paxos), nor which addresses
// are in use (package space). A [Command] states a condition by its nature:
// where it does not hold, the command has no effect, equally on all.
//
// A command carries its author and a number. Numbers rise; a command applies
// only if its number is above the highest of that author in the state, and
// then sets it, whether or not its condition holds. So a command has effect
// at most once, however often it is sent, forwarded or decided (I7), and a
// later number settles all earlier ones.
//
// Encodings: [EncodeBatch] and [State.Encode] write the forms that travel and
// that lie on disk; both are canonical, and their decoders take hostile bytes.
package chronicle
