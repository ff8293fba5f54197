// Package former is what a peer that has started over knows of the former peer of its host, which an operator has ended with
// ringlet rejoin: the cluster that one was in, and its clients that have not got their addresses again.
//
// A [Peer] owns that record. It refuses to know who holds which address now: the caller says which client has claimed or freed
// what.
package former
