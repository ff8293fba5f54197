// Package directory shows on each peer what every peer of its cluster says of
// itself: which addresses it holds, for whom, and how to reach it, as keys with
// JSON values. Package replica below it is the copy that each peer has, and the
// exchange that keeps copies alike; this package gives it a clock, a lock, a
// carrier, and what to say.
//
// It refuses to know how frames travel, and who may have which address.
//
// It is information. No allocation reads it, and none waits for it: its frames
// have a queue and a goroutine of their own, they never reach the allocator, and
// what is too much is dropped, since the next comparison finds the difference.
//
// # Keys
//
// <cluster> is the cluster's label (RINGLET_CLUSTER), which operators choose
// and which stays when the cluster is recovered under another ID.
//
//	ringlet/state/nodes/v1/<cluster>/<node>         Node, of the peer
//	ringlet/state/ip/v1/<cluster>/<ip>              Address, of the peer that holds it
//	ringlet/state/services/v1/<cluster>/<namespace>/<service>  Service, of each peer with a container of it
//	ringlet/state/identities/v1/<cluster>/id/<number>           LabelSet, agreed
//	ringlet/state/identities/v1/<cluster>/value/<labels>/<node> IdentityUse, of each peer with a container that has the labels
//	ringlet/state/pools/v1/<cluster>/<cidr>         Pool, agreed
//	ringlet/state/pools/v1/<cluster>/names/<name>   PoolName, agreed
//	ringlet/locks/<cluster>/<name>                  Lock, agreed
//	ringlet/.heartbeat/<cluster>                    Heartbeat, of the first live voter, each minute
//	ringlet/.cluster/<cluster>                      Cluster, agreed
//
// Pools and label sets are not sent from peer to peer: every peer has the chronicle, which is
// agreed, and a second copy of it could only be late. Each shows them from its
// own. All else is under the lease of its peer (see package replica): 15 minutes,
// renewed every 5.
//
// # What is published when
//
// The events of the peer say which addresses have changed; each is looked up
// alone. Everything is compared at the start, at each renewal and when events
// were missed, so that what should be there comes back by itself.
//
// # Identities
//
// The publisher never waits for the number of a label set. It says of an address what it knows, and says it again with the
// number. A goroutine of its own asks the cluster (see [Identities]), and on the first voter that can be reached it has sets
// collected that no host refers to.
//
// A [Directory] is safe for concurrent use. To test against it, give it a
// carrier that hands frames to other ones.
package directory
