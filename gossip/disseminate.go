package gossip

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/internal/wake"
)

// How broadcasts and changes of membership are disseminated. By default memberlist
// looks for them at even intervals: they would wait for the next one, and an idle
// host would wake for nothing. So memberlist looks seldom, and this peer
// disseminates at once, and then as often as memberlist would by default.
const (
	// lookEvery is how often memberlist looks. That somebody is suspected, of which
	// it tells nobody, waits for that, or rides on the next probe.
	lookEvery = pace.Period
	// disseminateEvery is how often this peer disseminates while there is something.
	disseminateEvery = 200 * time.Millisecond
	// broadcastFanout is to how many peers broadcasts go at a time, and probeFanout how many
	// are probed so that changes of membership ride on the probes, and theirs on
	// the answers.
	broadcastFanout = 3
	probeFanout     = 2
	// leaveProbeEvery is how often a peer that leaves says so.
	leaveProbeEvery = 50 * time.Millisecond
)

// dissemination is what waits to be disseminated.
type dissemination struct {
	wake    chan struct{} // has room for one
	members atomic.Bool   // somebody has come or gone
}

func newDissemination() *dissemination { return &dissemination{wake: make(chan struct{}, 1)} }

// notifyMembership disseminates that a peer has come or gone. It does not block.
func (n *dissemination) notifyMembership() {
	n.members.Store(true)
	wake.Up(n.wake)
}

// notifyBroadcast disseminates broadcasts. It does not block.
func (n *dissemination) notifyBroadcast() { wake.Up(n.wake) }

// disseminate passes on what there is until ctx ends.
func (s *session) disseminate(ctx context.Context) {
	var probing sync.WaitGroup
	defer probing.Wait()
	for rounds := 0; ; { // of probes that are still to be made
		if s.g.dissemination.members.Swap(false) {
			rounds = s.probeRounds()
		}
		if rounds == 0 && !s.hasBroadcasts() {
			select {
			case <-ctx.Done():
				return
			case <-s.g.dissemination.wake:
			}
			continue
		}
		if rounds > 0 {
			rounds--
			s.probeSome(&probing)
		}
		s.sendBroadcasts()
		if !backoff.Sleep(ctx, disseminateEvery, nil) {
			return
		}
	}
}

// hasBroadcasts reports whether there are broadcasts, and somebody to send them to.
func (s *session) hasBroadcasts() bool {
	return s.g.broadcasts.queue.NumQueued() > 0 && s.g.table.numAlive() > 0
}

// probeRounds returns how many rounds it takes until memberlist has said
// something as often as it wants to.
func (s *session) probeRounds() int {
	digits := 1
	for n := s.g.table.numAlive() + 1; n >= 10; n /= 10 { // with this one
		digits++
	}
	return (digits*memberRetransmits + probeFanout - 1) / probeFanout
}

// probeSome probes some peers, only for what rides on it: memberlist gives it to
// nobody in another way. What comes of the probe does not matter.
func (s *session) probeSome(probing *sync.WaitGroup) {
	for _, p := range s.g.table.some(probeFanout) {
		probing.Go(func() {
			_, _ = s.list.Ping(memberName(p.ID), net.UDPAddrFromAddrPort(p.Addr)) // memberlist's own probes tell who does not answer
		})
	}
}

// sendBroadcasts sends to some peers as many broadcasts as a packet has room for.
func (s *session) sendBroadcasts() {
	if !s.hasBroadcasts() {
		return
	}
	for _, p := range s.g.table.some(broadcastFanout) {
		broadcasts := s.g.broadcasts.queue.GetBroadcasts(2, datagram.MaxSize-1) // the length of each
		switch len(broadcasts) {
		case 0:
			return
		case 1:
			_ = s.list.SendBestEffort(nodeAt(p.ID, p.Addr), broadcasts[0]) // it is sent again, to others
		default:
			_ = s.list.SendBestEffort(nodeAt(p.ID, p.Addr), datagram.Bundle(broadcasts...))
		}
	}
}

// leave tells others that this peer leaves, and has them pass it on.
func (s *session) leave() error {
	ctx, left := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	probing.Go(func() {
		for backoff.Sleep(ctx, leaveProbeEvery, nil) {
			s.probeSome(&probing)
		}
	})
	err := s.list.Leave(leaveTime)
	left()
	time.Sleep(leaveLinger)
	probing.Wait()
	return err
}

// some returns up to n of those that are alive, by chance: all, if they are no
// more.
func (t *table) some(n int) []Presence {
	t.mu.Lock()
	defer t.mu.Unlock()
	chosen := make([]Presence, 0, n)
	seen := 0
	for _, m := range t.known {
		if !m.Alive {
			continue
		}
		seen++
		if len(chosen) < n {
			chosen = append(chosen, m.Presence)
		} else if i := rand.IntN(seen); i < n {
			chosen[i] = m.Presence
		}
	}
	return chosen
}
