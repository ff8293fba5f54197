// Package replica is one peer's copy of the cluster's directory: what every
// peer says of itself, as keys with values. It knows nothing of what a key
// means, and has no clock, lock or network: the time is an argument, and what
// is to be said to other peers is returned.
//
// # Sections
//
// Every peer writes keys of its own, and nobody else's: its section. It numbers
// its changes, within its boot, so that (peer, boot, number) says all of what
// a replica has of it. A section is taken over by its numbers alone:
//
//   - what a replica lacks is asked for from any that has it, and comes as the
//     changes behind a number, in pages. They take effect when the last page is
//     there, so that two replicas with one number have the same;
//   - a removal is a change like any other. Only the last ones are remembered:
//     who lacks more gets the whole section, which replaces what it had;
//   - a higher boot replaces all of a lower.
//
// So no removal has to be kept until the slowest peer has heard of it, and
// nothing that was removed can come back.
//
// # Leases
//
// A section counts as long as its peer renews it. What travels is the number of
// the renewal and how much is left of it, which is counted down by each
// replica: a clock that is wrong by a day harms nothing, and the section ends
// everywhere at the same moment, give or take the time on the wire. It is kept
// out of sight for a while after that, so that a peer that was only cut off
// brings its keys back with one renewal.
//
// # Exchange
//
// [Replica.Digest] is a hash of all (peer, boot, number), kept up to date with
// each change. Two replicas whose digests differ compare in three steps, each
// of which any of the two can lose:
//
//	Hashes   of 32 parts of the peers
//	Vector   the numbers of the peers in the parts that differ; from both
//	Want     where the asker is, of each peer of which it lacks something
//	Pages    the changes behind that, at most 60 KiB
//
// With leases in the hashes the same also finds renewals that did not arrive.
// Decoding takes hostile bytes, and is bounded before it allocates.
//
// A Replica is not safe for concurrent use. Two replicas that have taken the
// same sections show the same, whatever was lost, repeated or late on the way:
// that is how to test against it.
package replica
