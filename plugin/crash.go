package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/lastwords"
)

// edge returns what contains panics at one place.
func (f *front) edge(where string) *contain.Edge {
	return &contain.Edge{Where: where, Logger: f.logger, Count: f.meter.Panicked}
}

// catch has Go write down how this process crashes. It is called with the database
// open, which keeps another process from the files, and does nothing once it has
// succeeded.
func (f *front) catch() {
	if f.uncatch != nil {
		return
	}
	release, err := lastwords.Catch(f.opts.Data, version)
	if err != nil {
		f.logger.Warn("a crash of this process would leave no trace", logattr.Err(err))
		return
	}
	f.uncatch = release
}

const (
	// A node that has panicked maxPanics times within panicTime may have to do so at
	// what another host says: the next one has no network, for closedTime.
	maxPanics  = 3
	panicTime  = time.Minute
	closedTime = 15 * time.Minute
)

// panicked takes note of a node that has stopped at an error of the program.
func (f *front) panicked(err error) {
	stop, ok := errors.AsType[*node.StopError](err)
	if !ok || stop.Stack == nil {
		return
	}
	now := time.Now()
	f.meter.Panicked("node")
	crash := lastwords.Crash{At: now, Version: version, Text: stop.Cause.Error() + "\n\n" + string(stop.Stack)}
	if err := lastwords.WriteCrash(f.opts.Data, crash); err != nil {
		f.logger.Warn("the panic leaves no trace but the log's", logattr.Err(err))
	}
	f.panics = append(f.panics, now)
	if n := len(f.panics); n > maxPanics {
		f.panics = f.panics[n-maxPanics:]
	}
	if len(f.panics) == maxPanics && now.Sub(f.panics[0]) < panicTime {
		f.panics = nil
		f.alone.Set(fmt.Errorf("%d errors of the program within %v, the last one: %w", maxPanics, panicTime, stop.Cause))
	}
}

// newAlone returns what is wrong while the network is closed.
func newAlone(f *front) *fault.Fault {
	return &fault.Fault{
		Logger: f.logger, Code: "network-closed",
		Text: func(err error) string {
			return fmt.Sprintf("this host talks to no other host for %v, because a frame of another host may have caused %v", closedTime, err)
		},
		Next: "report it with the output of ringlet bundle; until then this host hands out addresses of its own ranges",
	}
}

// errOpenAgain ends an instance that has no network, so that the next one has.
var errOpenAgain = errors.New("the network between hosts is opened again")

// aloneFor ends an instance without a network after some time.
func (f *front) aloneFor(ctx context.Context) error {
	if !backoff.Sleep(ctx, closedTime, nil) {
		return nil
	}
	f.alone.Set(nil)
	return errOpenAgain
}
