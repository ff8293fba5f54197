// Package poolid is what a docker network asks ringlet for, and the pool ID that says all of it.
//
// dockerd keeps a pool ID for as long as the network exists and sends it with every call. So a [Network] has just one
// [ID], the form of an ID never changes, and a peer that lost its database can still serve the network.
//
// It refuses to know pools. Whether a subnet is free, who owns it and which other network is on it is no matter of it.
package poolid
