package main

import (
	"context"
	"iter"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/pace"
)

const (
	// Of burst requests and frames within burstTime there may be a load, of twice as many there is one. What an idle
	// host hears of a thousand others is three a second.
	burst     = 8
	burstTime = time.Second
	// longCall is how long a request takes that is a load by itself, or has waited for another host or a slow disk,
	// which does no harm.
	longCall = 20 * time.Millisecond
)

// processors sets GOMAXPROCS to 1 while the process is idle. Otherwise the scheduler wakes a second thread for each event,
// in case there is more work: that was a quarter of an idle host's CPU time. Under load the process has all processors,
// until there was no load for the time over, or twice that. A change stops the world for some microseconds.
type processors struct {
	one func() // all but one are left
	all func() // those that the process may have are used

	begun   time.Time
	count   atomic.Uint32
	counted atomic.Int64  // when it last was a multiple of burst, since begun
	busy    chan struct{} // has something if there was a load since it was last read
}

// thrift is what has an idle process cost little.
type thrift struct {
	threads *processors
	pace    *pace.Pace
}

func newProcessors() *processors {
	return &processors{
		one: func() { runtime.GOMAXPROCS(1) }, all: runtime.SetDefaultGOMAXPROCS,
		begun: time.Now(), busy: make(chan struct{}, 1),
	}
}

// came takes note of something to do. It does not block.
func (p *processors) came() {
	if p.count.Add(1)%burst != 0 {
		return
	}
	now := time.Since(p.begun)
	if now-time.Duration(p.counted.Swap(int64(now))) < burstTime {
		p.loaded()
	}
}

// loaded takes note of a load. It does not block.
func (p *processors) loaded() {
	select {
	case p.busy <- struct{}{}:
	default: // it is known already
	}
}

// observe is what a server is to call after each request, which has it counted.
func (p *processors) observe(next func(call, result string, took time.Duration)) func(call, result string, took time.Duration) {
	return func(call, result string, took time.Duration) {
		if p.came(); took >= longCall {
			p.loaded()
		}
		next(call, result, took)
	}
}

// deliver is what is to be called with frames that have come, which has them counted.
func (p *processors) deliver(next func(iter.Seq2[[]byte, int])) func(iter.Seq2[[]byte, int]) {
	return func(arrived iter.Seq2[[]byte, int]) {
		next(func(yield func([]byte, int) bool) {
			for frame, seat := range arrived {
				p.came()
				if !yield(frame, seat) {
					return
				}
			}
		})
	}
}

// run adapts the number of processors until ctx ends. That of an operator stands. Its error is always nil.
func (p *processors) run(ctx context.Context) error {
	if os.Getenv("GOMAXPROCS") != "" {
		<-ctx.Done()
		return nil
	}
	defer p.all()
	for backoff.Sleep(ctx, over, nil) {
		select {
		case <-p.busy:
			continue
		default:
		}
		p.one()
		select {
		case <-ctx.Done():
			return nil
		case <-p.busy:
		}
		p.all()
	}
	return nil
}
