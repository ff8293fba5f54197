// Package gossip carries frames between peers, and tells which of them are
// alive. It is an adapter of memberlist (SWIM with the Lifeguard extensions).
//
// It knows addresses, keys and liveness. It refuses to know what a frame says,
// except who wrote it, and decides nothing: that a peer is dead, has left or
// is suspected changes nothing about what it owns. Whoever gets a frame judges
// it by the origin that stands in it, since a peer that memberlist has turned
// down still gets its frames through.
//
// # Ways
//
//   - [Gossip.Send]: point to point. Frames that are sent together travel as
//     one message, which package datagram sends again until it is acknowledged,
//     and drops after a second. What is lost costs about a round trip, and what
//     is old holds up nothing.
//   - [Gossip.Broadcast]: a broadcast of at most [MaxBroadcast] bytes, to some
//     peers at once, and to others every fifth of a second for a while. It reaches
//     those that the receivers broadcast it to in turn, and misses some even on a
//     network that loses nothing. Where nothing is new nobody wakes for it.
//   - [Gossip.SetHeartbeat]: one frame that says how far this peer is. It rides on
//     the answer to every probe, is exchanged whenever two peers join or
//     compare notes, and is sent to one random peer every ten seconds, for
//     networks where no UDP comes through. So whatever a heartbeat can lead to
//     reaches all peers, with or without broadcasts.
//   - [Gossip.SetDigest]: 8 bytes beside the heartbeat, on what carries it other
//     than on its own. Whoever compares them sees within seconds that two
//     peers differ.
//
// # Guarantees
//
//  1. No method blocks on the network, and none but Run and Meet blocks at all.
//  2. Config.Deliver and Config.Presence are called only while Run runs, never
//     with a lock held. If they are slow, frames are dropped and counted;
//     probes and acknowledgements go on.
//  3. Presence tells the last state of each peer. States in between may be
//     left out.
//  4. Two halves of a cluster that took each other for dead find each other
//     again within a minute of being able to: memberlist would not try.
//  5. A peer that another one does not know becomes known to it within seconds
//     once it speaks, so that it gets answers.
//  6. With keys set, nothing unencrypted is accepted or sent. No byte that does
//     not open with a key reaches memberlist, and who has none gets no answer
//     (see package guard).
//  7. All queues are bounded, in frames and in bytes. What strangers may fill is
//     half of what there is for streams, and gives way to a source that brings less.
//
// A Gossip is safe for concurrent use. Frames that are handed to it, or by it,
// belong to the receiver.
//
// # Testing against it
//
// Package memnet is a network in memory that works inside a testing/synctest
// bubble: give each peer one of its transports in Config.Transport.
package gossip
