// Package crashes keeps what errors of the program leave behind: how the process crashed, and how often its node has panicked. Where that
// was often it says so, and the network between hosts stays closed for a while, as what another host says may be the cause.
//
// It refuses to know what runs in the process, and how the network is closed.
package crashes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/fault"
)

// Config is what crashes are kept by.
type Config struct {
	Dir     string // of the data
	Version string
	Count   func(where string) // a panic
	Logger  *slog.Logger
}

// Crashes are those of this process. All but Alone is for one goroutine. Use New.
type Crashes struct {
	// Alone is what is wrong while the network is closed.
	Alone *fault.Fault

	cfg     Config
	panics  []time.Time // of nodes, the last few
	uncatch func()      // ends that crashes are written down; nil: they are not
}

// New returns what keeps crashes, of which there was none.
func New(cfg Config) *Crashes {
	return &Crashes{cfg: cfg, Alone: &fault.Fault{
		Logger: cfg.Logger, Code: "network-closed",
		Text: func(err error) string {
			return fmt.Sprintf("this host talks to no other host for %v, because a frame of another host may have caused %v", closedTime, err)
		},
		Next: "report it with the output of ringlet bundle; until then this host hands out addresses of its own ranges",
	}}
}

// Edge returns what contains panics at one place.
func (c *Crashes) Edge(where string) *contain.Edge {
	return &contain.Edge{Where: where, Logger: c.cfg.Logger, Count: c.cfg.Count}
}

// Catch has Go write down how this process crashes. It is called with the database
// open, which keeps another process from the files, and does nothing once it has
// succeeded.
func (c *Crashes) Catch() {
	if c.uncatch != nil {
		return
	}
	release, err := lastwords.Catch(c.cfg.Dir, c.cfg.Version)
	if err != nil {
		c.cfg.Logger.Warn("a crash of this process would leave no trace", logattr.Err(err))
		return
	}
	c.uncatch = release
}

// Close ends what Catch began.
func (c *Crashes) Close() {
	if c.uncatch != nil {
		c.uncatch()
	}
}

const (
	// A node that has panicked maxPanics times within panicTime may have to do so at
	// what another host says: the next one has no network, for closedTime.
	maxPanics  = 3
	panicTime  = time.Minute
	closedTime = 15 * time.Minute
)

// Panicked takes note of a node that has stopped at an error of the program.
func (c *Crashes) Panicked(err error) {
	stop, ok := errors.AsType[*node.StopError](err)
	if !ok || stop.Stack == nil {
		return
	}
	now := time.Now()
	c.cfg.Count("node")
	crash := lastwords.Crash{At: now, Version: c.cfg.Version, Text: stop.Cause.Error() + "\n\n" + string(stop.Stack)}
	if err := lastwords.WriteCrash(c.cfg.Dir, crash); err != nil {
		c.cfg.Logger.Warn("the panic leaves no trace but the log's", logattr.Err(err))
	}
	c.panics = append(c.panics, now)
	if n := len(c.panics); n > maxPanics {
		c.panics = c.panics[n-maxPanics:]
	}
	if len(c.panics) == maxPanics && now.Sub(c.panics[0]) < panicTime {
		c.panics = nil
		c.Alone.Set(fmt.Errorf("%d errors of the program within %v, the last one: %w", maxPanics, panicTime, stop.Cause))
	}
}

// Reopen waits until the network may be opened again. It returns false where ctx ends before that.
func (c *Crashes) Reopen(ctx context.Context) bool {
	if !backoff.Sleep(ctx, closedTime, nil) {
		return false
	}
	c.Alone.Set(nil)
	return true
}
