// Package sentence has what people read in their terminal when a request is refused: the errors with their codes, and
// the words in which pools, addresses, holders and reservations are named.
//
// All sentences have one voice: what failed, with pool and address, why, and what to do. They are lower-case and have
// no full stop. The golden files of package ipam hold them all.
//
// The package refuses to know a Machine. Its functions take plain values, and what they say about these is all they
// know: they do not decide who waits, who is refused, or whether a peer can be reached.
package sentence
