package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/database"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/serving"
)

// standby is what stands for the node while there is none: it says why, on the
// admin socket, RINGLET_HTTP and to the engine, and sees whether the engine
// answers. Only begin and end change it; use newStandby.
type standby struct {
	front   *front
	fault   *fault.Fault
	watcher atomic.Pointer[dockerd.Watcher] // nil: it does not stand in

	mu   sync.Mutex
	stop func() // ends the watcher, and waits for it; nil: there is none
	told string // the reason that is shown; empty: it does not stand in
}

func newStandby(f *front) *standby {
	return &standby{front: f, fault: &fault.Fault{
		Logger: f.logger, Code: codeNoDatabase, Level: ipam.Failed,
		Text: func(err error) string {
			return fmt.Sprintf("this host hands out no addresses, because it cannot use its database: %v", err)
		},
		NextOf: func(err error) string {
			what := "check the disk with the plugin's data"
			if database.IsUnusable(err) {
				what = "see to what the problem names: the release, the settings or the file; or move the file away, and this host starts with an empty database"
			}
			return fmt.Sprintf("%s; ringlet tries again by itself, at least every %v", what, serving.LastRetry)
		},
	}}
}

// codeNoDatabase is the code of the problem that there is no node.
const codeNoDatabase = "database-unavailable"

// sayNoDatabase is what requests are refused with.
const sayNoDatabase = "ringlet on %s hands out nothing, because it cannot use its database (%v); it tries again by itself"

// begin stands in for the node, or goes on to, for that reason.
func (s *standby) begin(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault.Set(why)
	if s.told == why.Error() {
		return
	}
	s.told = why.Error()
	f := s.front
	refusal := &ipam.Error{
		Kind: ipam.ErrStopped,
		Text: fmt.Sprintf(sayNoDatabase, f.cfg.Name, why),
	}
	f.gate.Explain(refusal)
	if s.stop == nil {
		s.watch()
	}
	f.meter.Unwatch(s.Snapshot)
	servers, err := f.apis(admin.Config{
		Backend: &refusing{node.Stopped(refusal), s}, Process: f.process(s.watcher.Load(), nil),
	})
	if err != nil {
		f.logger.Error("the reason cannot be shown", logattr.Err(err)) // the log has it
		return
	}
	f.show(servers)
}

// watch has the engine watched, so that it is known whether it answers.
func (s *standby) watch() {
	w, err := newWatcher(s.front.opts, nil, s.front.plugin, slog.New(slog.DiscardHandler)) // that of an instance tells the log
	if err != nil {
		s.front.logger.Error("the engine is not watched", logattr.Err(err)) // as at the start, when it was none
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = w.Run(ctx, func(context.Context, dockerd.Inventory) (time.Duration, error) { return 0, nil }) // always nil
	})
	s.watcher.Store(w)
	s.stop = func() {
		cancel()
		running.Wait()
	}
}

// end stands in no longer. What is shown stays until something else is.
func (s *standby) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault.Set(nil)
	s.told = ""
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	s.watcher.Store(nil)
}

// engineAnswers reports whether the engine answers questions. It is false where
// that is not known.
func (s *standby) engineAnswers() bool {
	w := s.watcher.Load()
	return w != nil && w.State().Connected
}

// Snapshot returns the status of a peer without a node.
func (s *standby) Snapshot(context.Context) (ipam.Status, error) {
	out := ipam.Status{
		AsOf: time.Now(), Verdict: ipam.Failed, State: ipam.Suspended, Self: ipam.PeerStatus{Name: s.front.cfg.Name, State: string(ipam.Suspended)},
	}
	out.Problems = fault.Problems(slices.Insert(slices.Clone(s.front.faults), 0, s.fault)...)
	return out, nil
}

// refusing is the API's backend while there is no node.
type refusing struct {
	*node.Node // which has stopped
	standby    *standby
}

// Status implements [admin.Backend].
func (r *refusing) Status(ctx context.Context) (ipam.Status, error) { return r.standby.Snapshot(ctx) }

// Snapshot implements [admin.Backend].
func (r *refusing) Snapshot(ctx context.Context) (ipam.Status, error) { return r.standby.Snapshot(ctx) }

// Rejoin implements [admin.Backend].
func (r *refusing) Rejoin(ctx context.Context, _ bool) (admin.Rejoining, error) {
	_, err := r.Identity(ctx) // why there is no node
	return admin.Rejoining{}, err
}

// Trust implements [admin.Backend].
func (r *refusing) Trust(ctx context.Context) (admin.Trusted, error) {
	_, err := r.Identity(ctx) // the same
	return admin.Trusted{}, err
}

// Join implements [admin.Backend].
func (r *refusing) Join(ctx context.Context, _ string) ([]admin.Met, error) {
	_, err := r.Identity(ctx) // why there is no node
	return nil, err
}
