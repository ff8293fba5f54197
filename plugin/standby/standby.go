// Package standby stands in for the node while there is none: it says why on the admin socket, on RINGLET_HTTP and to the engine, and sees
// whether the engine answers.
//
// It refuses to know why there is no node, and when there is one again.
package standby

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

// Config is what a standby stands in by.
type Config struct {
	Host    string                                          // the name of this one
	Watcher func() (*dockerd.Watcher, error)                // makes one that logs nothing: that of an instance does
	Explain func(refusal error)                             // why requests of the engine are refused
	Show    func(b admin.Backend, w *dockerd.Watcher) error // has operators see b
	Faults  func() []*fault.Fault                           // of other parts
	Logger  *slog.Logger
}

// Standby is what stands for the node. Only Begin and End change it; use New.
type Standby struct {
	cfg     Config
	fault   *fault.Fault
	watcher atomic.Pointer[dockerd.Watcher] // nil: it does not stand in

	mu   sync.Mutex
	stop func() // ends the watcher, and waits for it; nil: there is none
	told string // the reason that is shown; empty: it does not stand in
}

// New returns a standby that does not stand in.
func New(cfg Config) *Standby {
	return &Standby{cfg: cfg, fault: &fault.Fault{
		Logger: cfg.Logger, Code: Code, Level: ipam.Failed,
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

// Code is the code of the problem that there is no node.
const Code = "database-unavailable"

// Refusal is what requests are refused with.
const Refusal = "ringlet on %s hands out nothing, because it cannot use its database (%v); it tries again by itself"

// Begin stands in for the node, or goes on to, for that reason.
func (s *Standby) Begin(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault.Set(why)
	if s.told == why.Error() {
		return
	}
	s.told = why.Error()
	refusal := &ipam.Error{
		Kind: ipam.ErrStopped,
		Text: fmt.Sprintf(Refusal, s.cfg.Host, why),
	}
	s.cfg.Explain(refusal)
	if s.stop == nil {
		s.watch()
	}
	if err := s.cfg.Show(&refusing{node.Stopped(refusal), s}, s.watcher.Load()); err != nil {
		s.cfg.Logger.Error("the reason cannot be shown", logattr.Err(err)) // the log has it
	}
}

// watch has the engine watched, so that it is known whether it answers.
func (s *Standby) watch() {
	w, err := s.cfg.Watcher()
	if err != nil {
		s.cfg.Logger.Error("the engine is not watched", logattr.Err(err)) // as at the start, when it was none
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

// End stands in no longer. What is shown stays until something else is.
func (s *Standby) End() {
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

// EngineAnswers reports whether the engine answers questions. It is false where
// that is not known.
func (s *Standby) EngineAnswers() bool {
	w := s.watcher.Load()
	return w != nil && w.State().Connected
}

// Snapshot returns the status of a peer without a node.
func (s *Standby) Snapshot(context.Context) (ipam.Status, error) {
	out := ipam.Status{
		AsOf: time.Now(), Verdict: ipam.Failed, State: ipam.Suspended, Self: ipam.PeerStatus{Name: s.cfg.Host, State: string(ipam.Suspended)},
	}
	out.Problems = fault.Problems(slices.Insert(slices.Clone(s.cfg.Faults()), 0, s.fault)...)
	return out, nil
}

// refusing is the API's backend while there is no node.
type refusing struct {
	*node.Node // which has stopped
	standby    *Standby
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
