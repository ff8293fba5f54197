package main

import (
	"context"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/events"
)

// stream makes events of what the node notes and of the problems of the status.
type stream struct {
	log *events.Log // nil until begin; then it does not change

	mu    sync.Mutex
	early []earlyNote // of the node's first commit, before its boot was known
}

type earlyNote struct {
	at   time.Time
	note ipam.Note
}

// note takes what the node noted. It does not block.
func (s *stream) note(n ipam.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		s.early = append(s.early, earlyNote{time.Now(), n})
		return
	}
	s.log.Note(time.Now(), n)
}

// begin makes the log of this start, whose number every event carries.
func (s *stream) begin(boot uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = events.New(boot, 0)
	for _, e := range s.early {
		s.log.Note(e.at, e.note)
	}
	s.early = nil
}

// watchInterval is how often the problems of the status are looked at.
const watchInterval = 2 * time.Second

// watch makes events of problems that begin or end, until ctx ends. Its error
// is always nil.
func (s *stream) watch(ctx context.Context, status func(context.Context) (ipam.Status, error)) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		if st, err := status(ctx); err == nil {
			s.log.Problems(time.Now(), st.Problems)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
