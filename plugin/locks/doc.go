// Package locks keeps the locks of the cluster that programs of this host have.
//
// A program takes a lock over the API, and renews it every few seconds. If it does not for 25 seconds, it is gone, and its host
// ends the lock 5 seconds later. So does a host end the locks of programs that it does not know, as after a start of its own process: the
// program has as long to renew.
//
// Only package ipam and the cluster decide who has a lock. This package refuses to know other hosts: when one of them is silent,
// the others end its locks.
package locks
