package gossip

import (
	"github.com/hashicorp/memberlist"
)

const (
	// retransmits is how often each peer repeats a broadcast, times the number
	// of digits of the number of peers. With memberlist's 4, up to one of
	// twenty broadcasts misses a peer on a perfect network; with 6, one of a
	// hundred.
	retransmits = 6
	// maxQueued bounds the broadcasts that are being sent.
	maxQueued = 1024
)

// broadcasts are those that are being sent. memberlist has a queue of its
// own for what it says about members, which goes first.
type broadcasts struct {
	g     *Gossip
	queue memberlist.TransmitLimitedQueue
}

func newBroadcasts(g *Gossip) *broadcasts {
	b := &broadcasts{g: g}
	b.queue.RetransmitMult = retransmits
	b.queue.NumNodes = func() int { return g.table.numAlive() + 1 }
	return b
}

// broadcast is one of them.
type broadcast []byte

var _ memberlist.UniqueBroadcast = broadcast(nil)

// Invalidates implements [memberlist.Broadcast].
func (broadcast) Invalidates(memberlist.Broadcast) bool { return false }

// Message implements [memberlist.Broadcast].
func (h broadcast) Message() []byte { return h }

// Finished implements [memberlist.Broadcast].
func (broadcast) Finished() {}

// UniqueBroadcast implements [memberlist.UniqueBroadcast].
func (broadcast) UniqueBroadcast() {}

func (b *broadcasts) put(frame []byte) {
	switch {
	case len(frame) == 0 || len(frame) > MaxBroadcast:
		// One that fits no packet would stay in the queue for ever.
		b.g.counts.oversize.Add(1)
		return
	case b.g.table.numAlive() == 0:
		return // who comes later learns it otherwise
	}
	b.g.counts.broadcast.Add(1)
	b.queue.QueueBroadcast(broadcast(frame))
	b.g.dissemination.notifyBroadcast()
	if n := b.queue.NumQueued(); n > maxQueued {
		b.queue.Prune(maxQueued) // those that were sent most often
		b.g.counts.broadcastsDropped.Add(uint64(n - maxQueued))
	}
}
