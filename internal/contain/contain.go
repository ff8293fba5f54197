// Package contain keeps a panic from ending more than what it concerns. It is for the
// edges of the process, where nothing that others rely on can be half changed:
// the decoding of what came from outside, and what only shows or records.
//
// It refuses to know what panicked, and who hears of it.
package contain

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Edge is one such place. The zero value contains panics and says nothing. Safe for
// concurrent use.
type Edge struct {
	Where  string                    // a word of a fixed list
	Logger *slog.Logger              // is told of the first panic, and once a minute at most; may be nil
	Count  func(where string)        // is called for each panic; may be nil
	last   atomic.Pointer[time.Time] // when the log was told
}

// logEvery is how often a line about panics at one edge is logged at most.
const logEvery = time.Minute

// Do calls f and reports whether it returned; it did not if it panicked.
func (e *Edge) Do(f func()) (ok bool) {
	defer func() {
		v := recover()
		if ok = v == nil; ok {
			return
		}
		if e.Count != nil {
			e.Count(e.Where)
		}
		if e.Logger != nil && e.due() {
			e.Logger.LogAttrs(context.Background(), slog.LevelError, "a panic was contained: report it with what ringlet bundle writes",
				slog.String("where", e.Where), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
	return true
}

// due reports whether a line is due.
func (e *Edge) due() bool {
	now, last := time.Now(), e.last.Load()
	if last != nil && now.Sub(*last) >= 0 && now.Sub(*last) < logEvery {
		return false
	}
	return e.last.CompareAndSwap(last, &now)
}
