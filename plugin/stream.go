package main

import (
	"context"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/events"
)

// stream makes events of what the node notes and of the problems of the status.
// Use newStream.
type stream struct {
	log  *events.Log   // nil until begin; then it does not change
	stir chan struct{} // has room for one: something has happened
	pace *pace.Pace    // may be nil
	edge contain.Edge

	mu    sync.Mutex
	early []earlyNote // of the node's first commit, before its boot was known
}

type earlyNote struct {
	at   time.Time
	note ipam.Note
}

func newStream() *stream { return &stream{stir: make(chan struct{}, 1)} }

// stirred has the problems looked at soon, since something has happened that may
// bring or end one. It does not block.
func (s *stream) stirred() {
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// note takes what the node noted. It does not block. A panic costs that event.
func (s *stream) note(n ipam.Note) { s.edge.Do(func() { s.take(n) }) }

func (s *stream) take(n ipam.Note) {
	s.stirred()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		s.early = append(s.early, earlyNote{time.Now(), n})
		return
	}
	s.log.Note(time.Now(), n)
}

// begin makes the log of this start, which every event names in its ID.
func (s *stream) begin(id ipam.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = events.New(uint64(id.Boot), id.Nonce, 0)
	for _, e := range s.early {
		s.log.Note(e.at, e.note)
	}
	s.early = nil
}

// The problems of the status are looked at every watchInterval while they change
// or something happens, and every calmInterval otherwise: a look reads all that
// there is to say of the cluster, in a large one for nothing nearly always.
const (
	watchInterval = 2 * time.Second
	calmInterval  = 10 * time.Second // at most
)

// watch makes events of problems that begin or end, until ctx ends. Its error
// is always nil.
func (s *stream) watch(ctx context.Context, status func(context.Context) (ipam.Status, error)) error {
	for {
		began, calm := time.Now(), false
		s.edge.Do(func() {
			if st, err := status(ctx); err == nil {
				calm = !s.log.Problems(time.Now(), st.Problems)
			}
		})
		if calm && !rest(ctx, s.pace.Within(calmInterval), s.stir) {
			return nil
		}
		if next := began.Add(watchInterval); !rest(ctx, time.Until(next), nil) {
			return nil
		}
	}
}

// rest waits, or until it is woken, and reports whether ctx still lives.
func rest(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}
