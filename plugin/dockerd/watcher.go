package dockerd

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/wake"
)

// Deliver receives an inventory, complete or not; a look that saw nothing at
// all is not delivered. The callee may ask for the next look to come
// after the time again at the latest; zero means that the usual interval will
// do. An error says that the inventory could not be used: it is logged, and
// the look repeated after a pause.
type Deliver func(ctx context.Context, inv Inventory) (again time.Duration, err error)

// Watcher keeps looking at one engine. Make it with [New]; it must not be
// copied.
type Watcher struct {
	cfg     Config
	log     *slog.Logger
	recheck chan struct{} // of size one: a look is wanted
	asks    chan struct{} // of size one: a list of networks is wanted
	blind   func(ctx context.Context) error
	ahead   func(ctx context.Context)
	asked   func(ctx context.Context, list List)
	state   atomic.Pointer[State]
	cli     atomic.Pointer[client.Client] // of the session; nil: there is none
}

// New returns a watcher that has not done anything yet. It fails if the config
// makes no sense.
func New(cfg Config) (*Watcher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("watch the docker engine: %w", err)
	}
	w := &Watcher{cfg: cfg, log: cfg.Logger, recheck: make(chan struct{}, 1), asks: make(chan struct{}, 1)}
	s := &State{Socket: cfg.Socket, LastError: "not started"}
	if cfg.Socket == "" {
		s.LastError = noSocket
	}
	w.state.Store(s)
	return w, nil
}

// WhenBlind sets what is called each time that an attempt to connect has shown
// that no look will come for now, and that none need be waited for: the engine
// took the connection and answers nothing, which it does while it starts and
// replays what it has to its drivers; or it is another engine than the one
// that this plugin runs in. It is called from Run's goroutine, and must be set
// before Run.
func (w *Watcher) WhenBlind(f func(ctx context.Context) error) { w.blind = f }

// BeforeLook sets what is called before each look, and before the engine is asked
// anything for it. It is called from Run's goroutine, as [Deliver] is, and must be
// set before Run.
func (w *Watcher) BeforeLook(f func(ctx context.Context)) { w.ahead = f }

// Recheck asks for a look soon. Requests before that look are served by it
// together; without a connection that is the first look of the next one. Safe for concurrent use, never blocks.
func (w *Watcher) Recheck() {
	wake.Up(w.recheck)
}

// List asks the engine in one call which networks of ours there are, without their endpoints.
type List func(ctx context.Context) ([]Network, error)

// WhenAsked sets what is called for each [Watcher.AskNetworks], to have the engine asked and to take the answer. It is
// called from Run's goroutine, also in the middle of a look, and must be set before Run.
func (w *Watcher) WhenAsked(f func(ctx context.Context, list List)) { w.asked = f }

// AskNetworks asks for a list of networks at once. Such a list is one call, and so neither waits for more to ask nor
// for the look that is under way. Without a connection the first look of the next one tells as much. Safe for
// concurrent use, never blocks.
func (w *Watcher) AskNetworks() {
	wake.Up(w.asks)
}

// Run connects, looks and delivers until ctx ends, and then returns nil after
// everything it started has stopped. A lost or missing engine is waited for
// without end. It is called once.
func (w *Watcher) Run(ctx context.Context, deliver Deliver) error {
	w.change(func(s *State) { s.Since = time.Now() })
	if w.cfg.Socket == "" {
		w.log.Info("docker engine not watched", slog.String("reason", noSocket))
		<-ctx.Done()
		return nil
	}
	w.change(func(s *State) { s.LastError = "connecting" })
	retry := w.pause()
	for ctx.Err() == nil {
		begun := time.Now()
		err := w.session(ctx, deliver)
		if ctx.Err() != nil {
			break
		}
		w.lost(err)
		if w.blind != nil && blinds(err) {
			if err := w.blind(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn("engine outage not reported", logattr.Err(err))
			}
		}
		// A connection that held for a while was a good one; one that breaks
		// at once, again and again, must not be retried at full speed.
		if time.Since(begun) > w.cfg.RetryMax {
			retry.Reset()
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.Next()):
		}
	}
	w.change(func(s *State) {
		if s.Connected {
			s.Connected, s.Since = false, time.Now()
		}
		s.LastError = "stopped"
	})
	return nil //nolint:nilerr // the last session ended because ctx did
}

// pause returns the pauses between attempts that fail.
func (w *Watcher) pause() backoff.Backoff {
	return backoff.Backoff{First: w.cfg.RetryMin, Last: w.cfg.RetryMax, Rand: w.cfg.Rand}
}

// lost records the end of a connection, or of an attempt to make one. An
// engine that starts, or that is stopped, gives the same answer for minutes:
// only the first of them is news.
func (w *Watcher) lost(err error) {
	before := w.State()
	level := slog.LevelDebug
	switch {
	case before.Connected:
		level = slog.LevelWarn
	case before.LastError != err.Error():
		level = slog.LevelInfo
	}
	w.log.Log(context.Background(), level, "docker engine not available", logattr.Err(err))
	w.change(func(s *State) {
		if s.Connected {
			s.Connected, s.Since = false, time.Now()
		}
		s.Failing, s.LastError = time.Time{}, err.Error()
	})
}
