// Package condition keeps an error that lasts, as a socket that cannot be opened: who looks sees it as long as it is there, and it
// is news when it begins, changes or ends, not each time it is found again.
//
// It refuses to know what the error is about, who is told, and what an operator could do.
package condition

import "sync"

// A Condition is an error that lasts. The zero value is well. It is safe for concurrent use.
type Condition struct {
	mu  sync.Mutex
	err error // nil: nothing is wrong
}

// Set says how things are; nil: well. If that is news, changed is called with err before Set returns. Two errors with the same
// text are the same. News comes in order, so changed must not call Set or Err.
func (c *Condition) Set(err error, changed func(err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if (err == nil) != (c.err == nil) || err != nil && err.Error() != c.err.Error() {
		changed(err)
	}
	c.err = err
}

// Err returns what is wrong; nil: nothing is.
func (c *Condition) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
