package logging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
)

// ErrNotFlushed is returned by [Sink.Run] when lines were left after the flush
// wait, as a rule because nobody reads the output.
var ErrNotFlushed = errors.New("the log was not written out in time")

// errRunTwice is a mistake of the caller, not of the operator.
var errRunTwice = errors.New("a log sink runs only once")

// line is one formatted line on its way to a writer.
type line struct {
	to   io.Writer
	text []byte
	lost uint64 // how many lines were dropped just before this one
}

// Sink holds the lines that are still to be written. Make it with [New].
// It is safe for concurrent use.
type Sink struct {
	format    Format
	out, err  io.Writer
	maxLine   int
	flushWait time.Duration

	started   atomic.Bool
	abandoned atomic.Bool   // Run returned while a write was blocked
	dropped   atomic.Uint64 // since New, for metrics

	queue  chan line
	recent recent

	mu   sync.Mutex // never held while writing
	lost uint64     // dropped since the last line that went into the queue
}

// Dropped returns how many lines were lost since [New]: those that found the
// queue full and those whose write failed.
func (s *Sink) Dropped() uint64 { return s.dropped.Load() }

// putOut and putErr are the Write methods under the formatting handlers. They
// take a copy of p, which stays the handler's, and never fail: whoever logs
// could do nothing about it.
func (s *Sink) putOut(p []byte) (int, error) {
	s.put(line{to: s.out, text: s.capped(p, slog.LevelWarn)})
	return len(p), nil
}

func (s *Sink) putErr(p []byte) (int, error) {
	s.put(line{to: s.err, text: s.capped(p, slog.LevelError)})
	return len(p), nil
}

// put queues a line or drops it, at once.
func (s *Sink) put(l line) {
	s.recent.add(l.text) // which nobody writes to
	s.mu.Lock()
	defer s.mu.Unlock()
	l.lost = s.lost
	select {
	case s.queue <- l:
		s.lost = 0
	default:
		s.lost++
		s.dropped.Add(1)
	}
}

// takeLost returns the number of lines dropped since the last one that was
// queued, and forgets them.
func (s *Sink) takeLost() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lost
	s.lost = 0
	return n
}

// Run writes lines until ctx ends, then what is left in the queue, for the
// flush wait at most. It returns nil if all was written, and an error that is
// [ErrNotFlushed] if not. It may be called once.
//
// A write that blocks cannot be called back: in that case one goroutine stays
// behind in it, and ends without a further write as soon as it returns.
func (s *Sink) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errRunTwice
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.writeAll(ctx.Done())
	}()

	<-ctx.Done()
	wait := time.NewTimer(s.flushWait)
	defer wait.Stop()
	select {
	case <-done:
		return nil
	case <-wait.C:
		s.abandoned.Store(true)
		return fmt.Errorf("%w: %d lines were still queued after %v", ErrNotFlushed, len(s.queue), s.flushWait)
	}
}

// writeAll writes lines as they come, and after stop until none is left.
func (s *Sink) writeAll(stop <-chan struct{}) {
	w := writer{Sink: s}
	for !s.abandoned.Load() {
		select {
		case l := <-s.queue:
			w.write(l)
			continue
		default:
		}
		// Lines are lost only while the queue is full, so there has been a
		// line since, and this is reached after it: no loss goes unreported.
		w.report(s.takeLost())
		select {
		case l := <-s.queue:
			w.write(l)
		case <-stop:
			if len(s.queue) == 0 {
				return
			}
		}
	}
}

// writer is what the one goroutine that writes keeps to itself.
type writer struct {
	*Sink
	owed uint64 // lost lines that are not reported yet
}

func (w *writer) write(l line) {
	w.report(l.lost)
	if !w.emit(l.to, l.text) {
		w.owed++
		w.dropped.Add(1)
	}
}

// report writes one line about lost lines, if there are any, and keeps the
// number for later if it cannot.
func (w *writer) report(lost uint64) {
	w.owed += lost
	if w.owed == 0 {
		return
	}
	var buf bytes.Buffer
	log := slog.New(&handler{text: w.format == Text, out: format(w.format, &buf, nil)})
	log.LogAttrs(context.Background(), slog.LevelWarn, "log lines dropped", logattr.Count(w.owed))
	if w.emit(w.out, buf.Bytes()) {
		w.owed = 0
	}
}

// emit writes one line and says whether all of it went out.
func (w *writer) emit(to io.Writer, text []byte) bool {
	if w.abandoned.Load() {
		return false
	}
	n, err := to.Write(text)
	return err == nil && n == len(text)
}
