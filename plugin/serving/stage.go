// Package serving keeps listeners open while what serves on them changes, fails, or is not there yet: a [Stage] changes what
// serves, and a [Service] opens a listener again that was lost.
//
// It refuses to know what is served, and to whom.
package serving

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
)

// Func serves on a listener, which it closes, until ctx ends.
type Func func(ctx context.Context, l net.Listener) error

// readTime is how long a server that is replaced has to read the requests of those
// who have just connected. One that ends closes such connections unread.
const readTime = time.Second

// Stage has what serves on a listener changed while that stays open: whoever
// connects meanwhile waits. Safe for concurrent use; use [NewStage].
type Stage struct {
	mu      sync.Mutex
	serves  Func          // nil: nothing yet
	changed chan struct{} // closed when something else is to serve
}

// NewStage returns a stage on which nothing serves yet.
func NewStage() *Stage { return &Stage{changed: make(chan struct{})} }

// Set has what connects from now on served by something else. What served before
// finishes what it answers.
func (s *Stage) Set(serves Func) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = serves
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Stage) now() (Func, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serves, s.changed
}

// Serve serves on l until ctx ends, or returns the error that ended it before. It
// closes l.
func (s *Stage) Serve(ctx context.Context, l net.Listener) error {
	shared := share(l)
	var all sync.WaitGroup
	defer all.Wait()
	defer shared.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		serves, changed := s.now()
		turn, over := context.WithCancel(ctx)
		ended, loan := make(chan error, 1), shared.lend()
		if serves != nil {
			all.Go(func() { ended <- serves(turn, loan) })
		}
		select {
		case <-changed:
			close(loan.paused)
			all.Go(func() {
				defer over()
				backoff.Sleep(ctx, readTime, nil)
			})
			continue
		case err := <-ended:
			over()
			return err
		case <-ctx.Done():
		}
		over()
		if serves == nil {
			return nil
		}
		return <-ended
	}
}

// shared is a listener that several servers have one after the other. Use share.
type shared struct {
	net.Listener
	arrived chan arrival
	done    chan struct{} // closed at the end
}

// arrival is what a listener answered.
type arrival struct {
	conn net.Conn
	err  error
}

// share takes a listener over, until close.
func share(l net.Listener) *shared {
	s := &shared{Listener: l, arrived: make(chan arrival), done: make(chan struct{})}
	go s.accept()
	return s
}

// accept brings what connects to whoever has the listener.
func (s *shared) accept() {
	for {
		conn, err := s.Accept()
		s.bring(arrival{conn, err})
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// bring waits for somebody who takes it.
func (s *shared) bring(a arrival) {
	select {
	case s.arrived <- a:
	case <-s.done:
		if a.conn != nil {
			_ = a.conn.Close() // nobody serves any more
		}
	}
}

func (s *shared) close() {
	close(s.done)
	_ = s.Close() // everybody has what it brought
}

// lend returns a listener whose end does not close the one that is shared.
func (s *shared) lend() *loan {
	return &loan{shared: s, paused: make(chan struct{}), ended: make(chan struct{})}
}

// loan is a shared listener as one server has it.
type loan struct {
	*shared
	paused chan struct{} // closed when it gets no more
	once   sync.Once
	ended  chan struct{}
}

// Accept implements [net.Listener].
func (l *loan) Accept() (net.Conn, error) {
	select {
	case a := <-l.arrived:
		select {
		case <-l.paused:
			go l.bring(a) // it is the next one's
		case <-l.ended:
			go l.bring(a)
		default:
			return a.conn, a.err
		}
	case <-l.paused:
	case <-l.ended:
	case <-l.done:
	}
	select {
	case <-l.ended:
	case <-l.done:
	}
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (l *loan) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}
