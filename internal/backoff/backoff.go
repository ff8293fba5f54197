// Package backoff makes pauses between attempts: each failure doubles the next one, up to a bound.
//
// It refuses to know what is tried, and when it went well.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Backoff is the pause between attempts at one thing. Use it for one goroutine.
type Backoff struct {
	First, Last time.Duration // the shortest pause and the longest
	// Rand, unless it is nil, makes the upper half of each pause random, so that many who fail at one thing do not come again in
	// step.
	Rand *rand.Rand

	pause time.Duration // the last one; zero: none since a success
}

// Next returns the pause after one more failure.
func (b *Backoff) Next() time.Duration {
	b.pause = min(max(2*b.pause, b.First), b.Last)
	if b.Rand == nil {
		return b.pause
	}
	half := b.pause / 2
	return half + time.Duration(b.Rand.Int64N(int64(b.pause-half)+1))
}

// Reset makes the next failure the first one.
func (b *Backoff) Reset() { b.pause = 0 }

// Sleep waits for d, or until wake has something; a nil wake never has. It reports whether ctx still lives. It waits for nothing
// if d is not positive.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}
