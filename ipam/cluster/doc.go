// Package cluster is who is there: the other peers that this one has met, and the cluster as it looks at one moment.
//
// [Contacts] keeps what each peer has said of itself, when it was last heard from, and what the carrier of frames
// believes. A [View] holds that against the agreed state and the time of the step. It answers whether a peer can be
// reached, whether a majority can, and what people call a peer. All of it may be wrong. Only the start of a peer is
// used for what must be right: it is on disk, and a frame from an earlier start does not count.
//
// The package refuses to know what follows. It sends no frame, answers no call and proposes nothing. It knows no pool
// and no engine, and not whether this peer may serve.
package cluster
