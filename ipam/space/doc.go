// Package space knows which addresses of one pool this peer may hand out,
// which it holds, and which it held before.
//
// It refuses to know other peers, networks, and how a range came to this peer.
//
// An address that is the peer's own ("mine") is in one of three states:
//
//	never used   there is no record of it
//	held         its record says who holds it, and since when
//	freed        its record says who held it last, and since when it is free
//
// A freed address first rests, so that nobody's neighbour cache still knows
// its last holder, and is then as good as any. [Space.Take] hands out what was
// never used, the lowest first, then what was freed least recently. Ranges
// that the peer is about to give away are set aside: they stay its own, and
// nothing in them is handed out.
//
// The package decides nothing about ownership. Its caller says which ranges
// are mine ([Space.Own], [Space.Disown]), writes each record that a call
// returns to its disk, and brings the records back after a restart
// ([Space.Put], [Space.Seal]). There is no clock, lock, goroutine or
// randomness: the same calls have the same results. A [Space] is not safe for
// concurrent use.
//
// # Inside
//
//   - Records lie in a slab, in blocks, and are named by a 32-bit index.
//     A slab of a million records grows by a block, never by a copy, and one of
//     a handful has a short one. The name and the ID of who holds an address
//     share a string, in which the ID takes half of its length.
//   - Pages of 64 addresses, made when first used, lead from an offset to its
//     record; their bitmaps answer questions about ranges. An unused /8 or /64
//     costs nothing, and a lone claim in the middle of it one page.
//   - Every address that is usable and never used lies in one of the ranges
//     "fresh". Their starts are cursors: they advance over used addresses, 64
//     at a time, and each used address is passed once.
//   - Freed addresses that are usable form queues, oldest first, beside the
//     records: those of addresses that are held need no room for neighbours. The
//     pool is cut into segments at the ends of the ranges that Take was asked
//     for, and each segment has its own queue, so that the oldest of a range is
//     the oldest among a few heads.
//   - Keys, the hashes of what addresses stick to, are indexed by linear
//     hashing, in buckets of one line of the processor's cache: a search reads
//     that line, and only those records whose keys have the tag that it wants.
//
// [Space.Check] states the invariants and verifies them. The tests compare a
// Space with a slow, obvious twin after every step of random histories.
package space
