package dockerd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/ringlet/ringlet/internal/wake"
)

// subscribe opens the event stream and leaves one goroutine on it, which ends
// with ctx or with the stream, and counts in wg.
func (s *session) subscribe(ctx context.Context, wg *sync.WaitGroup) error {
	// The engine answers before it has really subscribed us. Asking for what
	// happened since before the call covers that moment.
	since := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	guard := time.AfterFunc(s.cfg.Timeout, cancel)
	messages, errs := s.cli.Events(ctx, events.ListOptions{
		Since:   fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()),
		Filters: hintFilter(),
	})
	intime := guard.Stop()

	wg.Go(func() {
		defer cancel()
		for {
			select {
			case m := <-messages:
				if !isHint(m) {
					continue
				}
				wake.Up(s.hints)
			case err := <-errs:
				s.broken <- err
				for range errs { // closed when the client's own goroutine is done
				}
				return
			}
		}
	})
	if !intime {
		return unanswered{what: "/events", after: s.cfg.Timeout}
	}
	return nil
}

// hintActions are the events after which an address may be held or free that
// was not before, or a name or network may be another.
func hintActions() map[events.Type][]events.Action {
	return map[events.Type][]events.Action{
		events.ContainerEventType: {events.ActionDie, events.ActionDestroy, events.ActionRename},
		events.NetworkEventType: {
			events.ActionConnect, events.ActionDisconnect,
			events.ActionCreate, events.ActionDestroy, events.ActionRemove,
		},
	}
}

// hintFilter lets the engine leave out most of what isHint refuses, above all
// the health checks, which on some hosts are nearly all events there are.
func hintFilter() filters.Args {
	args := filters.NewArgs()
	for kind, actions := range hintActions() {
		args.Add("type", string(kind))
		for _, action := range actions {
			args.Add("event", string(action))
		}
	}
	return args
}

func isHint(m events.Message) bool {
	return slices.Contains(hintActions()[m.Type], m.Action)
}
