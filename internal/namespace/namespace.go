// Package namespace gives a test a network namespace of its own, in which it makes interfaces, addresses and routes as it likes.
// It refuses to know what a test makes there.
package namespace

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Enter has the test go on in a network namespace of its own, or skips it where there can be none. What the test starts as a command
// runs there too; goroutines do not.
func Enter(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root makes network namespaces")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("skipped: no network namespace can be made: %v", err)
	}
}

// IP runs a command of iproute2 there.
func IP(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}
