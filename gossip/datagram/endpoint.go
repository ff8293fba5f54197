package datagram

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Config is what an [Endpoint] is made with. All fields are required.
type Config struct {
	Self     peer.ID
	MinFrame int                        // the shortest frame, in bytes; at least 1
	MaxFrame int                        // the longest frame, in bytes
	Author   func(frame []byte) peer.ID // who wrote a frame of at least MinFrame bytes
	Deliver  func(frames ...[]byte)     // takes in the frames of one message, in order; must not block
}

// Network sends bytes to a peer. Both methods report whether the network took them; that says nothing of their arrival.
// Implementations are safe for concurrent use.
type Network interface {
	SendDatagram(to peer.ID, b []byte) bool // does not block
	SendStream(to peer.ID, b []byte) bool   // over a stream of its own; blocks while the other end does not read
}

// Counts are what happened since the endpoint was made, in frames.
type Counts struct {
	Sent        uint64 // handed to the network
	Failed      uint64 // could not be
	Dropped     uint64 // waited too long, or too many waited, or the endpoint was closed
	Repeated    uint64 // handed to the network again, as no ack came
	Unconfirmed uint64 // dropped without an ack
	Duplicate   uint64 // arrived again, and dropped
}

type counters struct {
	sent, failed, dropped, repeated, unconfirmed, duplicate atomic.Uint64
}

// Endpoint is one peer's end. [New] makes one; it is safe for concurrent use. It sends nothing before [Endpoint.Open].
type Endpoint struct {
	cfg        Config
	counts     counters
	wake       chan struct{} // has room for one
	seen       seen
	reassembly reassembly

	mu          sync.Mutex
	network     Network // nil: closed
	queues      map[peer.ID]*peerQueue
	paths       map[peer.ID]*path
	pendingAcks map[peer.ID]*pendingAcks
}

// New returns a closed endpoint.
func New(cfg Config) *Endpoint { return &Endpoint{cfg: cfg, wake: make(chan struct{}, 1)} }

// Counts returns what happened until now.
func (e *Endpoint) Counts() Counts {
	c := &e.counts
	return Counts{
		Sent: c.sent.Load(), Failed: c.failed.Load(), Dropped: c.dropped.Load(), Repeated: c.repeated.Load(),
		Unconfirmed: c.unconfirmed.Load(), Duplicate: c.duplicate.Load(),
	}
}

// Open lets the endpoint send over a network, which [Endpoint.Run] does.
func (e *Endpoint) Open(n Network) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.network = n
	e.queues = make(map[peer.ID]*peerQueue)
	e.paths = make(map[peer.ID]*path)
	e.pendingAcks = make(map[peer.ID]*pendingAcks)
}

// Close drops what waits. Streams end with what they are sending.
func (e *Endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.network = nil
	for _, q := range e.queues {
		for _, m := range q.messages {
			e.drop(q, m)
		}
	}
	e.queues, e.paths, e.pendingAcks = nil, nil, nil
}

// Run sends what is due until ctx ends, and returns when all of its streams have ended. The endpoint must be open, and Run
// is called once for each [Endpoint.Open].
func (e *Endpoint) Run(ctx context.Context) {
	e.mu.Lock()
	n := e.network
	e.mu.Unlock()
	var streams sync.WaitGroup
	defer streams.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-timer.C:
		}
		due, again := e.due(time.Now())
		for _, o := range due {
			switch {
			case o.stream:
				streams.Go(func() { e.streamSent(o, n.SendStream(o.to, o.body)) })
			case o.message != nil:
				e.datagramSent(o, n.SendDatagram(o.to, o.body))
			default:
				n.SendDatagram(o.to, o.body)
			}
		}
		if again.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(again))
		}
	}
}

// Forget drops what is known of the way to a peer.
func (e *Endpoint) Forget(id peer.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.paths, id)
}
