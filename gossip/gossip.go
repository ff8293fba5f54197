package gossip

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Backoff of opening the sockets.
const (
	minRetry = time.Second
	maxRetry = 10 * time.Second
)

// Gossip is this peer's end of the network. [New] makes one; it is safe for
// concurrent use.
type Gossip struct {
	cfg  Config
	log  *slog.Logger
	meta []byte

	seeds         *seeds
	table         *table
	inbox         *inbox
	datagrams     *datagram.Endpoint
	broadcasts    *broadcasts
	dissemination *dissemination
	heartbeat     atomic.Pointer[[]byte]
	digest        atomic.Uint64
	counts        counters
	diagnostics   *diagnostics
	screen        *screen
	lookNow       chan struct{} // has room for one: look for peers now
	unknownSender atomic.Bool   // a frame came from a peer that memberlist has not announced
	joinRequests  chan joinRequest

	ran      atomic.Bool
	lastKeys [][]byte // of the last session; Run's alone
}

// New sets up this peer's end of the network. It opens nothing and starts
// nothing.
func New(cfg Config) (*Gossip, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	description, err := meta{id: cfg.ID, boot: cfg.Boot, nonce: cfg.Nonce, name: cfg.Name}.encode()
	if err != nil {
		return nil, err
	}
	g := &Gossip{cfg: cfg, log: cfg.Logger, meta: description, lookNow: make(chan struct{}, 1), joinRequests: make(chan joinRequest)}
	g.seeds = &seeds{list: parseSeeds(cfg.Join)}
	g.table = newTable(cfg.ID, g.seeds.at, cfg.Remembered)
	g.inbox = newInbox()
	g.datagrams = datagram.New(datagram.Config{Self: cfg.ID, MinFrame: minFrame, MaxFrame: MaxFrame, Author: sender, Deliver: g.arrived})
	g.broadcasts = newBroadcasts(g)
	g.dissemination = newDissemination()
	g.diagnostics = newDiagnostics(g)
	g.screen = newScreen(g)
	return g, nil
}

// Run opens the sockets, joins whom it finds, and goes on looking for who is
// missing, until ctx ends; then it leaves, which takes a few seconds at most.
// While the sockets cannot be opened it tries again, and Status says why. An
// error is returned only if Run was called before.
func (g *Gossip) Run(ctx context.Context) error {
	if g.ran.Swap(true) {
		return errors.New("the network has run already: make another one")
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers sync.WaitGroup
	workers.Go(func() { g.deliver(work, g.inbox.frames.wake, g.inbox.frames.take) })
	workers.Go(func() { g.deliver(work, g.inbox.heartbeats.wake, g.takeHeartbeat) })
	workers.Go(func() { g.tell(work) })

	retry := backoff.Backoff{First: minRetry, Last: maxRetry}
	for ctx.Err() == nil {
		s, err := g.open(ctx)
		g.diagnostics.shut.set(err)
		if err != nil {
			backoff.Sleep(ctx, jitter(retry.Next(), 0.2), nil)
			continue
		}
		s.run(ctx)
		g.lastKeys = s.keyring.GetKeys()
		retry.Reset()
	}
	stop()
	workers.Wait()
	return nil
}

// tell tells Config.Presence of each peer that has changed.
func (g *Gossip) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.table.wake:
		}
		for ctx.Err() == nil {
			p, ok := g.table.next()
			if !ok {
				break
			}
			g.logPresence(p)
			if !p.Alive && g.table.numAlive() == 0 {
				wake.Up(g.lookNow)
			}
			g.cfg.Presence(p)
		}
	}
}

func (g *Gossip) logPresence(p Presence) {
	attrs := []slog.Attr{logattr.Peer(p.ID), logattr.Name(string(p.Name)), addrAttr(p.Addr)}
	if p.Alive {
		g.log.LogAttrs(context.Background(), slog.LevelInfo, "peer reachable", attrs...)
		return
	}
	g.log.LogAttrs(context.Background(), slog.LevelInfo, "peer unreachable", attrs...)
}

// Send sends frames to one peer, where it is or was last. They arrive together
// and in order, or, if they are many, in parts. It does not wait, and nothing is
// known of their arrival: for a second they are sent again, and then given up.
// Frames for a peer of which no address is known are dropped and counted, as
// are those that wait too long or are too many, and all while the sockets are
// not open. They must not be changed after.
func (g *Gossip) Send(to peer.ID, frames ...[]byte) {
	unfit := func(f []byte) bool { return len(f) < minFrame || len(f) > MaxFrame }
	if slices.ContainsFunc(frames, unfit) {
		total := len(frames)
		frames = slices.DeleteFunc(slices.Clone(frames), unfit)
		g.counts.oversize.Add(uint64(total - len(frames)))
	}
	switch _, known := g.table.addr(to); {
	case len(frames) == 0:
	case to == g.cfg.ID || !known:
		g.counts.unknown.Add(uint64(len(frames)))
	default:
		g.datagrams.Send(to, frames...)
	}
}

// Broadcast sends a frame to some peers at a time, until about all have it if
// those that get it broadcast it too. One that is longer than [MaxBroadcast] is
// dropped and counted. The frame must not be changed after.
func (g *Gossip) Broadcast(frame []byte) { g.broadcasts.put(frame) }

// SetHeartbeat sets the frame that says how far this peer is, from now on. It must
// not be changed after; one that is longer than [MaxBroadcast] is dropped and
// counted.
func (g *Gossip) SetHeartbeat(frame []byte) {
	if len(frame) > MaxBroadcast {
		g.counts.oversize.Add(1)
		return
	}
	g.heartbeat.Store(&frame)
}

func (g *Gossip) currentHeartbeat() []byte {
	if heartbeat := g.heartbeat.Load(); heartbeat != nil {
		return *heartbeat
	}
	return nil
}

// SetDigest sets a number that goes with the heartbeat wherever that rides on
// something else, from now on: 8 bytes, of which this package knows nothing
// more. A peer without a heartbeat shows none.
func (g *Gossip) SetDigest(digest uint64) { g.digest.Store(digest) }

// Queued returns how many broadcasts are still being sent.
func (g *Gossip) Queued() int { return g.broadcasts.queue.NumQueued() }

// Living returns the peers that answer, in no order.
func (g *Gossip) Living() []peer.ID {
	var ids []peer.ID
	for _, p := range g.table.living() {
		ids = append(ids, p.ID)
	}
	return ids
}

// Contacts returns where each peer was last seen, in order of their IDs, to be
// kept for Config.Remembered.
func (g *Gossip) Contacts() []Contact { return g.table.contacts(time.Now()) }

// Forget stops trying to reach a peer that is not alive, as it left the
// cluster for good.
func (g *Gossip) Forget(id peer.ID) {
	g.table.forget(id)
	g.datagrams.Forget(id)
}

// OwnSeedIndex returns the seed index of this peer (see [Seeds]), 0 for none or as long
// as it is not known.
func (g *Gossip) OwnSeedIndex() int { return int(g.diagnostics.seedIndex.Load()) }
