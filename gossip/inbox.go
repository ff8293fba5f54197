package gossip

import (
	"bytes"
	"context"
	"sync"

	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Limits of what has arrived and was not delivered yet.
const (
	maxInbox          = 4096     // frames
	maxInboxBytes     = 64 << 20 // four of the longest
	maxHeartbeats     = 4096     // senders
	maxHeartbeatBytes = 4096     // of one, far above what a heartbeat needs
)

// inbox is what has arrived. memberlist's callbacks put in, which never
// blocks; two goroutines take out, so that heartbeats pass where frames wait.
type inbox struct {
	frames     frameQueue
	heartbeats heartbeats
}

// frameQueue is a bounded queue: what is too much is dropped as it comes.
type frameQueue struct {
	wake chan struct{} // has room for one

	mu    sync.Mutex
	queue [][]byte
	bytes int
}

func newInbox() *inbox {
	return &inbox{
		frames:     frameQueue{wake: make(chan struct{}, 1)},
		heartbeats: heartbeats{wake: make(chan struct{}, 1), latest: make(map[peer.ID]heartbeatPayload)},
	}
}

// put reports whether there was room.
func (l *frameQueue) put(frames ...[]byte) bool {
	size := 0
	for _, frame := range frames {
		size += len(frame)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue)+len(frames) > maxInbox || l.bytes+size > maxInboxBytes {
		return false
	}
	l.queue = append(l.queue, frames...)
	l.bytes += size
	wake.Up(l.wake)
	return true
}

func (l *frameQueue) take() ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue = nil // after a rush, give the memory back
		return nil, false
	}
	frame := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.bytes -= len(frame)
	return frame, true
}

// heartbeats keeps the last heartbeat of each sender: the ones before say nothing more.
type heartbeats struct {
	wake chan struct{} // has room for one

	mu     sync.Mutex
	latest map[peer.ID]heartbeatPayload
}

func (b *heartbeats) put(p heartbeatPayload) bool {
	from := sender(p.frame)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, have := b.latest[from]; !have && len(b.latest) >= maxHeartbeats {
		return false
	}
	b.latest[from] = p
	wake.Up(b.wake)
	return true
}

func (b *heartbeats) take() (heartbeatPayload, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for from, p := range b.latest {
		delete(b.latest, from)
		return p, true
	}
	return heartbeatPayload{}, false
}

// takeHeartbeat takes one heartbeat out, and tells the digest that came with it.
func (g *Gossip) takeHeartbeat() ([]byte, bool) {
	p, ok := g.inbox.heartbeats.take()
	if ok {
		g.cfg.Digest(sender(p.frame), p.digest)
	}
	return p.frame, ok
}

// arrived has frames delivered, in order. There is room for all of them, or
// for none.
func (g *Gossip) arrived(frames ...[]byte) {
	if !g.inbox.frames.put(frames...) {
		g.counts.overrun.Add(uint64(len(frames)))
	}
}

// broadcastArrived has a broadcast delivered, and reports whether it can be one.
func (g *Gossip) broadcastArrived(frame []byte) bool {
	if len(frame) < minFrame || len(frame) > MaxBroadcast {
		return false
	}
	g.arrived(bytes.Clone(frame))
	return true
}

// maxAtOnce is how many frames are delivered together at most.
const maxAtOnce = 256

// deliver takes out and delivers, until ctx ends.
func (g *Gossip) deliver(ctx context.Context, wake <-chan struct{}, take func() ([]byte, bool)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		for ctx.Err() == nil {
			frame, ok := take()
			if !ok {
				break
			}
			g.cfg.Deliver(func(yield func([]byte, int) bool) {
				for n := 1; ok && yield(frame, g.seedOfSender(frame)) && n < maxAtOnce; n++ {
					frame, ok = take()
				}
			})
		}
	}
}

// seedOfSender counts a frame that is delivered, and has peers asked about its
// sender if that is unknown, or was given up: it may be back elsewhere.
func (g *Gossip) seedOfSender(frame []byte) int {
	g.counts.received.Add(1)
	from := sender(frame)
	seed, alive := g.table.seedIndex(from)
	if !alive && from != g.cfg.ID && !g.unknownSender.Swap(true) {
		wake.Up(g.lookNow)
	}
	return seed
}
