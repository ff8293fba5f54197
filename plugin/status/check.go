package status

import (
	"context"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// lookWait is how long a check waits for the engine to list what it has. One
// that is slower is checked against its last list.
const lookWait = 5 * time.Second

// Check holds what this peer knows against a list of the engine that is begun
// after the question.
func (s *Status) Check(ctx context.Context) (ipam.Audit, error) {
	s.look(ctx)
	return s.Node.Check(ctx)
}

// Collect frees what leaks, by a list of the engine that is begun after the
// question.
func (s *Status) Collect(ctx context.Context, r ipam.CollectRequest) ([]ipam.Collected, error) {
	s.look(ctx)
	return s.Node.Collect(ctx, r)
}

// look has the engine asked what it has, and waits for the answer.
func (s *Status) look(ctx context.Context) {
	begun := time.Now()
	if !s.cfg.Watcher.State().Connected {
		return
	}
	s.cfg.Watcher.Recheck()
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A look that was under way may have been begun before the question.
		if st := s.cfg.Watcher.State(); st.LastLook.Add(-st.Took).After(begun) {
			return
		}
	}
}
