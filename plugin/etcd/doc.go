// Package etcd keeps a copy of the directory in an etcd v3 that others run, so
// that programs without ringlet can read and watch it, and shows on this host what
// other clusters keep there. It starts only where RINGLET_ETCD is set.
//
// # What is written
//
// Each host writes its own keys, under one lease of 15 minutes that it renews
// every 5. The ID of the lease follows from that of the peer, so a host that
// starts again finds its lease and its keys. What is agreed (pools, and which
// cluster has the label) the first live voter writes, under its own lease.
//
//	ringlet/.cluster/<label>       {"id": …}: which cluster has the label; each write depends on it
//	ringlet/.initlock/<random>/<lease>   for a moment at each connection: writes work
//	all other keys as in package directory; a service has a key for each host:
//	ringlet/state/services/v1/<label>/<namespace>/<service>/<node>
//
// A watch tells when somebody else changes or deletes one of the keys; then the
// host puts it back, each key at most every 5 seconds. All keys are compared at
// each connection, and every 5 minutes.
//
// # What is read
//
// Keys with the labels of other clusters go to the directory as foreign keys:
// it shows them, and nothing else follows from them.
//
// # What it refuses to know
//
// It knows nothing of addresses, pools or peers, and no decision reads it. Only the
// directory feeds it, from a bounded ring of changes: an etcd that is slow, frozen or
// gone makes this package compare everything later, and nothing else wait. A session
// that fails is dropped with all that it has in memory.
//
// [Mirror.Run] is its one goroutine with a reason to end. To test against it, run a
// real etcd: the package has no part that stands for one.
package etcd
