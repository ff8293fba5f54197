package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace has the test go on in a network namespace of its own.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root makes network namespaces")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("skipped: no network namespace can be made: %v", err)
	}
}

// ip runs a command of iproute2 in the test's namespace.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

// A change is known when the call returns that makes it, whoever hears of it first.
func TestKernelTellsAtOnce(t *testing.T) {
	inNamespace(t)
	kernel, err := openAddressNews()
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		for {
			if err := kernel.wait(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	ip(t, "link", "set", "lo", "up")
	if n := kernel.changes(); n != 0 {
		t.Errorf("%d changes by lo, whose addresses do not count", n)
	}
	for _, address := range []string{"10.60.0.7/24", "fd00:60::7/64"} {
		for range 20 {
			for _, step := range []string{"add", "del"} {
				before := kernel.changes()
				ip(t, "address", step, address, "dev", "lo")
				if kernel.changes() == before {
					t.Fatalf("ip address %s %s is not known yet", step, address)
				}
			}
		}
	}
	// Of two ends of a line its own counts, whatever the other one has.
	for _, step := range []string{"add", "del"} {
		before := kernel.changes()
		ip(t, "address", step, "10.60.0.9", "peer", "169.254.1.1/32", "dev", "lo")
		if kernel.changes() == before {
			t.Errorf("ip address %s 10.60.0.9 peer 169.254.1.1 is not known yet", step)
		}
	}
	before := kernel.changes()
	ip(t, "address", "add", "fe80::7/64", "dev", "lo")
	if n := kernel.changes() - before; n != 0 {
		t.Errorf("%d changes by an address of the link", n)
	}
	gone := errors.New("enough")
	cancel(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("it ended with %v", err)
	}
}
