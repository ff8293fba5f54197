package gossip

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
)

// How peers are looked for.
const (
	rejoinEvery        = 30 * time.Second // who is missing
	refusedEvery       = 20 * time.Second // who is missing, if one of them refuses this peer
	aloneEvery         = 5 * time.Second  // anybody
	unknownEvery       = 2 * time.Second  // to be let in, while others may have turned this peer down
	unknownTime        = time.Minute      // how long that is tried: where no UDP comes through, no probe does either
	unknownSenderEvery = 5 * time.Second  // at most: about peers that others know
	secondSyncAfter    = 10 * time.Second // from a peer's start to its second look at who is there
	joinStagger        = 50 * time.Millisecond
	maxJoins           = 32 // at a time
	enoughJoins        = 3
)

// rejoin looks for who is missing until ctx ends. memberlist forgets the dead
// after half a minute, so two halves of a cluster would never meet again.
func (s *session) rejoin(ctx context.Context) {
	for {
		s.look(ctx)
		every := rejoinEvery
		switch {
		case s.g.table.numAlive() == 0, s.g.seeds.unresolved():
			every = aloneEvery
		case s.rejected():
			every = unknownEvery
		case !s.secondSync:
			every = secondSyncAfter
		case s.g.unknownSender.Load():
			every = unknownSenderEvery
		case s.refusals.any():
			every = refusedEvery
		}
		if !backoff.Sleep(ctx, jitter(every, 0.5), s.g.lookNow) {
			return
		}
		s.g.seeds.resolve(ctx, s.g.cfg.host.lookup)
		s.g.table.reindex()
	}
}

// rejected reports whether this peer may be unknown to those that it knows:
// nobody has probed it, or somebody holds it to be elsewhere. It goes on saying
// where it is, since they let it in only some seconds after they have given up
// its former address.
func (s *session) rejected() bool {
	return time.Since(s.began) < unknownTime &&
		(!s.delegate.probed.Load() || s.g.diagnostics.contested(time.Now()))
}

// look tries some of the addresses at which nobody is alive. Whoever is alone
// tries all of them; the others share them by chance, so that together they make
// about one attempt for each.
func (s *session) look(ctx context.Context) {
	s.readOwn()
	s.noteSeedIndex()
	missing := make([]netip.AddrPort, 0, 16)
	for _, a := range s.g.table.missing(s.g.seeds.addrs()) {
		if !s.listensAt(a) {
			missing = append(missing, a)
		}
	}
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	living := s.g.table.living()
	refused := s.refusals.due(missing, time.Now())
	if len(living) == 0 {
		s.joinSome(ctx, missing)
		return
	}
	s.joinSome(ctx, refused[:min(len(refused), maxJoins)])
	switch {
	case s.rejected():
		s.ask(ctx, living)
	case time.Since(s.asked) >= unknownSenderEvery && s.g.unknownSender.Swap(false):
		// The word that somebody has come misses a peer now and then. Some of the
		// others know, and the next exchange by chance is minutes away.
		s.asked = time.Now()
		s.ask(ctx, living)
	case !s.secondSync && time.Since(s.began) >= secondSyncAfter/2:
		// Of many that start at once, some miss one another: each tells what it
		// knows of the others for a moment only.
		s.secondSync = true
		s.ask(ctx, living)
	default:
		missing = slices.DeleteFunc(missing, func(a netip.AddrPort) bool { return slices.Contains(refused, a) })
		share := (len(missing) + rand.IntN(len(living))) / len(living) // one more or less, by chance
		s.joinSome(ctx, missing[:min(share, maxJoins)])                // the next who is unknown waits for these
	}
}

// ask exchanges all that is known with one of those that are alive.
func (s *session) ask(ctx context.Context, living []Presence) {
	s.joinSome(ctx, []netip.AddrPort{living[rand.IntN(len(living))].Addr})
}

// noteSeedIndex finds this peer's own seed index. A host's own name often stands for a
// loopback address on it (Debian: 127.0.1.1), or for another of its addresses.
func (s *session) noteSeedIndex() {
	seed := s.g.seeds.at(s.self)
	if seed == 0 {
		seed = s.g.seeds.find(s.isOwn)
	}
	if s.g.diagnostics.seedIndex.Swap(int64(seed)) != int64(seed) {
		s.g.cfg.SeedIndex(seed)
	}
}

// joinSome joins at these addresses in turn, several at a time, until enough
// have answered: one that is dead takes seconds to try.
func (s *session) joinSome(ctx context.Context, addrs []netip.AddrPort) {
	var joining sync.WaitGroup
	var joined atomic.Int32
	room := make(chan struct{}, maxJoins)
	defer joining.Wait()
	for i, addr := range addrs {
		if i > 0 && !backoff.Sleep(ctx, joinStagger, nil) {
			return
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if joined.Load() >= enoughJoins {
			return
		}
		joining.Go(func() {
			if s.join(addr) == nil {
				joined.Add(1)
			}
			<-room
		})
	}
}

// join exchanges all that is known with the host at an address. That it has
// worked does not mean that this peer was let in.
func (s *session) join(addr netip.AddrPort) error {
	d, err := s.transport.trial(addr.String(), func() error {
		_, err := s.list.Join([]string{addr.String()})
		return err
	})
	switch {
	case err == nil:
	case d.connected:
		err = s.g.refusal(d.refused, err)
	case d.err == nil || errors.Is(d.err, errHungUp):
		return err // it was not tried
	default:
		err = unreachable(d.err)
	}
	s.refusals.note(addr, d.connected && err != nil, time.Now())
	s.g.diagnostics.tried(addr, err)
	return err
}

// refusals are the missing peers that answered the last attempt and refused it, with when that was. The others share the
// attempts at who is missing by chance, but each peer tries these again in each look: a host that refuses a peer says so in
// its status for as long as that comes back (foreignFor). Safe for concurrent use.
type refusals struct {
	mu   sync.Mutex
	last map[netip.AddrPort]time.Time
}

func (r *refusals) note(addr netip.AddrPort, refused bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !refused {
		delete(r.last, addr)
		return
	}
	if r.last == nil {
		r.last = make(map[netip.AddrPort]time.Time)
	}
	r.last[addr] = now
}

// any reports whether there are any.
func (r *refusals) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.last) > 0
}

// due returns those of the missing that refused this peer aloneEvery ago or earlier, and forgets who is not missing.
func (r *refusals) due(missing []netip.AddrPort, now time.Time) (due []netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(a netip.AddrPort, _ time.Time) bool { return !slices.Contains(missing, a) })
	for a, last := range r.last {
		if now.Sub(last) >= aloneEvery {
			due = append(due, a)
		}
	}
	return due
}
