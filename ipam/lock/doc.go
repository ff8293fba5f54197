// Package lock is which locks of the cluster are held, by whom, and with which fence.
//
// A lock has a name and at most one holder. Whoever gets it gets a fence, a number that rises with every holder of the lock. A
// resource that remembers the highest fence it has seen can refuse a holder that has lost the lock and does not know it yet.
//
// A [Table] is what the cluster has agreed on. It refuses to know time: when a holder is silent for too long, and what becomes
// of its work, is decided by whoever asks for a lock to end.
package lock
