package gossip

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/pace"
)

// How news travels: hints, and who has come or gone. memberlist would look for
// news at even intervals, for which news has to wait, and which wake a host that
// has none. So it is told to look seldom, and this peer passes on what there is:
// at once, and then as often as memberlist would by default.
const (
	// lookEvery is how often memberlist looks. That somebody is suspected, of which
	// it tells nobody, waits for that, or rides on the next probe.
	lookEvery = pace.Beat
	// newsEvery is how often news is passed on while there is any.
	newsEvery = 200 * time.Millisecond
	// hintFanout is to how many peers hints go at a time, and newsFanout how many
	// are probed so that news of members rides on the probes, and theirs on
	// the answers.
	hintFanout = 3
	newsFanout = 2
	// partingEvery is how often a peer that leaves says so.
	partingEvery = 50 * time.Millisecond
)

// news is what there is to be passed on.
type news struct {
	wake    chan struct{} // has room for one
	members atomic.Bool   // somebody has come or gone
}

func newNews() *news { return &news{wake: make(chan struct{}, 1)} }

// ofMembers has it passed on that somebody has come or gone. It does not block.
func (n *news) ofMembers() {
	n.members.Store(true)
	poke(n.wake)
}

// ofHints has hints passed on. It does not block.
func (n *news) ofHints() { poke(n.wake) }

// passNews passes on what there is until ctx ends.
func (s *session) passNews(ctx context.Context) {
	var probing sync.WaitGroup
	defer probing.Wait()
	for rounds := 0; ; { // of probes that are still to be made
		if s.g.news.members.Swap(false) {
			rounds = s.newsRounds()
		}
		if rounds == 0 && !s.hasHints() {
			select {
			case <-ctx.Done():
				return
			case <-s.g.news.wake:
			}
			continue
		}
		if rounds > 0 {
			rounds--
			s.probeSome(&probing)
		}
		s.passHints()
		if !sleep(ctx, newsEvery) {
			return
		}
	}
}

// hasHints reports whether there are hints, and somebody to send them to.
func (s *session) hasHints() bool {
	return s.g.broadcasts.queue.NumQueued() > 0 && s.g.table.numAlive() > 0
}

// newsRounds returns how many rounds it takes until memberlist has said
// something as often as it wants to.
func (s *session) newsRounds() int {
	digits := 1
	for n := s.g.table.numAlive() + 1; n >= 10; n /= 10 { // with this one
		digits++
	}
	return (digits*memberRetransmits + newsFanout - 1) / newsFanout
}

// probeSome probes some peers, only for what rides on it: memberlist gives it to
// nobody in another way. What comes of the probe does not matter.
func (s *session) probeSome(probing *sync.WaitGroup) {
	for _, p := range s.g.table.some(newsFanout) {
		probing.Go(func() {
			_, _ = s.list.Ping(memberName(p.ID), net.UDPAddrFromAddrPort(p.Addr)) // memberlist's own probes tell who does not answer
		})
	}
}

// passHints sends to some peers as many hints as a packet has room for.
func (s *session) passHints() {
	if !s.hasHints() {
		return
	}
	for _, p := range s.g.table.some(hintFanout) {
		hints := s.g.broadcasts.queue.GetBroadcasts(2, maxDatagram-1) // the length of each
		switch len(hints) {
		case 0:
			return
		case 1:
			_ = s.list.SendBestEffort(nodeAt(p.ID, p.Addr), hints[0]) // it is sent again, to others
		default:
			_ = s.list.SendBestEffort(nodeAt(p.ID, p.Addr), together(hints...))
		}
	}
}

// leave tells others that this peer leaves, and has them pass it on.
func (s *session) leave() error {
	ctx, left := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	probing.Go(func() {
		for sleep(ctx, partingEvery) {
			s.probeSome(&probing)
		}
	})
	err := s.list.Leave(leaveTime)
	left()
	time.Sleep(farewellTime)
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
