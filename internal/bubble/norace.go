//go:build !race

package bubble

// oneThread does nothing: without the race detector there is nothing to keep
// whole.
func oneThread() (done func()) { return func() {} }
