package node

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Carrier brings frames to other peers. None of its methods may block. What
// it is given it may keep.
type Carrier interface {
	// Send brings frames to one peer, together and in order if it can.
	Send(to peer.ID, frames ...[]byte)
	// Broadcast brings a hint to everybody, if it can.
	Broadcast(frame []byte)
	// SetHeartbeat shows a frame to others from now on, whenever it can.
	SetHeartbeat(frame []byte)
}

// carried is the carrier in use; the type makes it fit an atomic value.
type carried struct{ Carrier }

// Carry has the node's frames brought by c from now on. Frames that came
// before are lost, as frames may be.
func (n *Node) Carry(c Carrier) {
	n.carrier.Store(&carried{c})
	if beat := n.lastBeat.Load(); beat != nil {
		c.SetHeartbeat(*beat)
	}
}

// How many frames may wait for the machine, and how long they may be together, in bytes,
// before further ones are dropped: a disk may hang.
const (
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
)

// Deliver takes in frames that came from other peers' hosts, each with a seat
// as in [ipam.Message]. They share a commit: a decision and the question about
// the next slot, which come together, cost one. A frame that cannot be read is
// counted, and logged now and then; it harms nothing. Deliver does not wait for
// the disk.
func (n *Node) Deliver(arrived iter.Seq2[[]byte, int]) {
	var jobs []*job
	for frame, seat := range arrived {
		f, err := n.decode(frame)
		if err != nil {
			if n.arrivals.refused.Add(1); n.mayComplain() {
				n.cfg.Logger.Warn("frame refused", logattr.Err(err), slog.Uint64("refused", n.arrivals.refused.Load()))
			}
			continue
		}
		size := int64(len(frame))
		if n.arrivals.queued.Load() >= maxQueued || n.arrivals.bytes.Load()+size > maxQueuedBytes {
			n.arrivals.refused.Add(1)
			continue
		}
		n.arrivals.queued.Add(1)
		n.arrivals.bytes.Add(size)
		jobs = append(jobs, &job{event: &ipam.Message{Frame: f, Seat: seat}, size: size})
	}
	if len(jobs) > 0 {
		n.post(jobs...)
	}
}

// errPanicked is why a frame was refused at which the decoder panicked.
var errPanicked = errors.New("this program has an error in its decoder")

// decode reads a frame. A panic costs that frame: nothing of the machine has seen it.
func (n *Node) decode(frame []byte) (f *wire.Frame, err error) {
	if !n.decoding.Do(func() {
		contain.Marked(frame)
		f, err = wire.Decode(frame)
	}) {
		return nil, errPanicked
	}
	return f, err
}

// complainEvery is how often a line about refused frames is logged at most.
const complainEvery = time.Minute

// mayComplain reports whether a line about a refused frame is due. Somebody may have set
// the clock back since the last one.
func (n *Node) mayComplain() bool {
	now, last := time.Now().UnixNano(), n.arrivals.complained.Load()
	return (now < last || now-last >= int64(complainEvery)) && n.arrivals.complained.CompareAndSwap(last, now)
}

// Present says what the carrier believes of another peer.
func (n *Node) Present(p ipam.Presence) { n.post(&job{event: &p}) }

// PresentSelf says which seat among the founders of a cluster is this host's.
func (n *Node) PresentSelf(seat int) { n.post(&job{event: &ipam.Presence{Self: true, Seat: seat}}) }

// post has the machine take events for whose outcome nobody waits, not even for the
// disk: whoever brings them has others to bring, which are not the machine's.
func (n *Node) post(events ...*job) {
	for _, j := range events {
		j.ctx, j.abandoned = context.Background(), true
	}
	if lead, _ := n.enqueue(events...); lead {
		go n.leadAlone()
	}
}

// exchange brings what a commit has made durable to other peers.
func (n *Node) exchange(sends []ipam.Send, beat []byte) {
	if beat != nil {
		n.lastBeat.Store(&beat)
	}
	c := n.carrier.Load()
	if c == nil {
		return
	}
	if beat != nil {
		c.SetHeartbeat(beat)
	}
	if len(sends) == 0 {
		return
	}
	var order []peer.ID
	frames := make(map[peer.ID][][]byte)
	for _, s := range sends {
		if s.To == peer.None {
			c.Broadcast(s.Frame)
			continue
		}
		if frames[s.To] == nil {
			order = append(order, s.To)
		}
		frames[s.To] = append(frames[s.To], s.Frame)
	}
	// What follows from a slot comes with it: who is asked about the next one
	// before it has heard of this one cannot answer.
	for _, to := range order {
		c.Send(to, frames[to]...)
	}
}

// Identity tells who this peer is among others.
func (n *Node) Identity(ctx context.Context) (ipam.Identity, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.Identity, error) { return m.Identity(), nil })
}

// Gone returns those of the peers that have left the cluster for good, see
// [ipam.Machine.Gone].
func (n *Node) Gone(ctx context.Context, peers []peer.ID) ([]peer.ID, error) {
	return look(ctx, n, func(m *ipam.Machine) (gone []peer.ID, _ error) {
		for _, id := range peers {
			if m.Gone(id) {
				gone = append(gone, id)
			}
		}
		return gone, nil
	})
}

// Drain begins or ends the draining of this peer.
func (n *Node) Drain(ctx context.Context, r ipam.DrainRequest) error {
	_, err := n.call(ctx, &r)
	return err
}

// Leave makes this peer leave its cluster, and returns when it has.
func (n *Node) Leave(ctx context.Context, force bool) error {
	_, err := n.call(ctx, &ipam.LeaveRequest{Force: force})
	return err
}

// Evict takes a lost peer, by name or ID, out of the roster.
func (n *Node) Evict(ctx context.Context, peer string) error {
	_, err := n.call(ctx, &ipam.EvictRequest{Peer: peer})
	return err
}

// Forget gives up the space of an evicted peer whose host is gone for good,
// and tells what that frees. With dryRun it only tells.
func (n *Node) Forget(ctx context.Context, peer string, dryRun bool) (ipam.Forgetting, error) {
	reply, err := n.call(ctx, &ipam.ForgetRequest{Peer: peer, DryRun: dryRun})
	return valueOf(reply.Forgetting), err
}

// Recover founds the cluster anew from what this peer knows, without the
// others.
func (n *Node) Recover(ctx context.Context) error {
	_, err := n.call(ctx, &ipam.RecoverRequest{})
	return err
}

// Refused returns how many frames could not be read, or were too many.
func (n *Node) Refused() uint64 { return n.arrivals.refused.Load() }
