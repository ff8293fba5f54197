// Package leave is the wish of an operator that this peer leaves its cluster, or gives up its space.
//
// A [Wish] is on disk until it is fulfilled or withdrawn. It says which command brings the peer out of the roster next: a
// peer drains until it owns nothing, and is retired then, or it leaves by force, and its space is quarantined. A peer
// that was draining when it was evicted drains on once it is back.
//
// The package refuses to know what is held on the host and who may wish for what. It proposes nothing itself.
package leave
