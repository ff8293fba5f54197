package main

import (
	"cmp"
	"log/slog"
	"sync"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
)

// fault is what may be wrong with one part of the process while the others go
// on. It is a problem of the status as long as it lasts, and a line in the log
// when it begins, changes or ends. Safe for concurrent use.
type fault struct {
	logger *slog.Logger
	code   string                 // of the problem
	level  ipam.Verdict           // of the problem; empty: degraded
	text   func(err error) string // of the problem
	next   string                 // of the problem
	nextOf func(err error) string // in its place; may be nil
	look   func() error           // finds out what is wrong, where that is looked at when somebody asks; else nil
	mu     sync.Mutex
	err    error // nil: nothing is wrong
}

// set says how the part does; nil: well.
func (f *fault) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && (f.err == nil || f.err.Error() != err.Error()):
		f.logger.Warn("problem began", logattr.Kind(f.code), logattr.Err(err))
	case err == nil && f.err != nil:
		f.logger.Info("problem ended", logattr.Kind(f.code))
	}
	f.err = err
}

// problem returns what to tell an operator; false if nothing is wrong.
func (f *fault) problem() (ipam.Problem, bool) {
	if f.look != nil {
		f.set(f.look())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return ipam.Problem{}, false
	}
	next := f.next
	if f.nextOf != nil {
		next = f.nextOf(f.err)
	}
	return ipam.Problem{Code: f.code, Level: string(cmp.Or(f.level, ipam.Degraded)), Text: f.text(f.err), Next: next}, true
}
