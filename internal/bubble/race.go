//go:build race

package bubble

import (
	"runtime"
	"sync"
)

// bubbles counts those that exist, of tests that run side by side.
var bubbles struct {
	sync.Mutex
	n       int
	threads int // for Go code, before the first of them
}

// oneThread has Go code run on one thread until all that called it are done.
func oneThread() (done func()) {
	bubbles.Lock()
	defer bubbles.Unlock()
	if bubbles.n == 0 {
		bubbles.threads = runtime.GOMAXPROCS(1)
	}
	bubbles.n++
	return func() {
		bubbles.Lock()
		defer bubbles.Unlock()
		if bubbles.n--; bubbles.n == 0 {
			runtime.GOMAXPROCS(bubbles.threads)
		}
	}
}
