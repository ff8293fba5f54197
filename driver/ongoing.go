package driver

import (
	"context"
	"sync"
	"sync/atomic"
)

// ongoing are the calls that are being answered, so that those which wait can
// be told when there is no more time to. It is safe for concurrent use.
//
// That costs a call less than a context above its own, of which there would be
// one more for each.
type ongoing struct {
	ended atomic.Bool

	mu    sync.Mutex
	calls map[*call]context.CancelFunc
}

// begin adds a call, which cancel ends: at once, if all have been ended.
func (o *ongoing) begin(c *call, cancel context.CancelFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended.Load() {
		cancel()
		return
	}
	if o.calls == nil {
		o.calls = map[*call]context.CancelFunc{}
	}
	o.calls[c] = cancel
}

// done removes a call.
func (o *ongoing) done(c *call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, c)
}

// end ends all calls, and those that begin from now on.
func (o *ongoing) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended.Store(true)
	for _, cancel := range o.calls {
		cancel()
	}
}
