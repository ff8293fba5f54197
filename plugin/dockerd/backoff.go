package dockerd

import (
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles with each failure. Not safe for concurrent
// use.
type backoff struct {
	shortest, longest time.Duration
	rand              *rand.Rand
	step              time.Duration // the last pause before jitter; zero after a success
}

// next returns the pause after one more failure. The upper half of it is
// random, so that a fleet of plugins does not knock on a shared engine, or an
// engine's many listeners on it, in step.
func (b *backoff) next() time.Duration {
	b.step = min(max(2*b.step, b.shortest), b.longest)
	half := b.step / 2
	return half + time.Duration(b.rand.Int64N(int64(b.step-half)+1))
}

// reset makes the next failure the first.
func (b *backoff) reset() { b.step = 0 }
