// Package namespace gives a test a network namespace of its own, in which it makes interfaces, addresses and routes as it likes.
// It refuses to know what a test makes there.
package namespace

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
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
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: %v", err)
		}
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

// Other makes another network namespace, and returns the ID of a process in it, by which ip and nsenter know it.
func Other(t *testing.T) (pid string) {
	t.Helper()
	other := exec.CommandContext(context.WithoutCancel(t.Context()), "cat") // it ends with its input
	other.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends by that
		_ = other.Wait()
	})
	return strconv.Itoa(other.Process.Pid)
}
