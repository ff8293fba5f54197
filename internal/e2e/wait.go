package e2e

import (
	"errors"
	"os/exec"
	"testing"
	"time"
)

// Eventually looks until ok holds, and fails the test when it does not within limit. What names the state waited for.
// Use it for what has no event to wait for; [Log.Wait] is better where there is one.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended while waiting: %s", what)
		}
	}
}

// ExitCode returns the exit code in the chain of an error from one of the Try methods: 0 for no error, -1 when the
// command did not run at all.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
