// Package bubble runs tests in virtual time. It is testing/synctest, but for a
// defect of Go's runtime that ends the process of a test under the race
// detector.
//
// It refuses to know what a test does.
//
// All timers of a bubble share one context of the race detector, and nothing
// keeps two threads out of it: one runs the timers that are due, the other
// finds, while it selects, that its own is due as well. Either's calls are then
// lost from the context's stack, and sooner or later reading that stack ends in
// SIGSEGV. Seen with Go 1.26.8; 64 goroutines that do nothing else need less
// than a second for it, and with one thread for Go code it has not come.
package bubble

import (
	"testing"
	"testing/synctest"
)

// Test runs test in a new bubble, as [synctest.Test] does. Under the race
// detector there is one thread for Go code while any bubble exists.
func Test(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	defer oneThread()()
	synctest.Test(t, test)
}
