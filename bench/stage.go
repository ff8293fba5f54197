package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// stage is what the equipment of the tests with real engines needs of a test. What fails or is skipped on it ends a part
// of the measurement, not the program.
type stage struct {
	testing.TB // nil: no other method is called

	ctx      context.Context
	mu       sync.Mutex
	cleanups []func()
	skipped  string
	problems []string
}

// noEngineError says why nothing could be measured on an engine.
type noEngineError struct{ why string }

func (e *noEngineError) Error() string { return e.why }

// onStage runs f, and what it has to be cleaned up after it, and returns how that went.
func onStage(ctx context.Context, f func(s *stage) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{ctx: ctx}
	var failed error
	apart(func() { failed = f(s) })
	cancel()
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		apart(last)
	}
	switch {
	case failed != nil:
		return failed
	case s.skipped != "":
		return &noEngineError{s.skipped}
	case len(s.problems) > 0:
		return fmt.Errorf("%s", strings.Join(s.problems, "; "))
	}
	return nil
}

// apart runs f, which may end its goroutine.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (s *stage) Helper()                  {}
func (s *stage) Context() context.Context { return s.ctx }
func (s *stage) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }
func (s *stage) Logf(string, ...any)      {}

func (s *stage) Skip(args ...any) {
	s.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}

func (s *stage) Skipf(format string, args ...any) { s.Skip(fmt.Sprintf(format, args...)) }

func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.problems) > 0
}

func (s *stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func (s *stage) Error(args ...any) { s.Errorf("%s", fmt.Sprint(args...)) }

func (s *stage) Fatal(args ...any) {
	s.Error(args...)
	runtime.Goexit()
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}
