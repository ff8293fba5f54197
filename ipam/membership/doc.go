// Package membership is whether this peer takes part in its cluster: it may vote, propose and hand out, or it may not, and why.
//
// A [Membership] owns the rooms that each know a part of the answer: which start of which peer this is, who is there, how the peer
// comes into a cluster, whether its database is current, new or suspended, and whether it is to leave. It is the only one that
// brings them together. It holds them against the replicated log.
//
// The package refuses to know pools, spaces, addresses of containers and calls.
package membership
