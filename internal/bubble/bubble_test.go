package bubble_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
)

// TestTimersTogether has many timers become due at the same moment, some of
// which their goroutines find due themselves. With two threads and the race
// detector the process does not survive it.
func TestTimersTogether(t *testing.T) {
	bubble.Test(t, func(*testing.T) {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range 500 {
					timer, called := time.NewTimer(time.Millisecond), make(chan struct{})
					time.AfterFunc(time.Millisecond, func() {
						select {
						case <-timer.C:
						default:
						}
						close(called)
					})
					<-called
				}
			})
		}
		all.Wait()
	})
}
