package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// TestManyInterfaces has as many interfaces and addresses as containers make: the kernel
// is to list each kind once.
func TestManyInterfaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root makes network namespaces")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skipf("skipped: no network namespace can be made: %v", err)
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	for i := range 20 {
		name := fmt.Sprintf("veth%d", i)
		ip("link", "add", name, "type", "veth", "peer", "name", "peer"+name)
		ip("link", "set", name, "up")
		for j := range 10 {
			ip("address", "add", fmt.Sprintf("10.60.%d.%d/24", i, j+1), "dev", name)
		}
	}
	allocated := func(read func() error) uint64 { // in bytes
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	got := allocated(func() error { _, err := interfaceAddrs(); return err })
	once := allocated(func() error {
		_, err := net.Interfaces()
		_, err2 := net.InterfaceAddrs()
		return errors.Join(err, err2)
	})
	if got > 2*once {
		t.Errorf("to read the addresses takes %d bytes, and each list once %d", got, once)
	}

	ip("link", "set", "veth0", "down")
	ip("address", "add", "10.61.0.9", "peer", "169.254.1.1/32", "dev", "veth1") // a line with two ends
	ip("address", "add", "fd00:61::9/64", "dev", "veth1")
	have, err := interfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for a, link := range map[string]string{
		"10.60.0.1": "", "10.60.1.1": "veth1", "10.61.0.9": "veth1", "169.254.1.1": "", "fd00:61::9": "veth1", "10.60.19.10": "veth19",
	} {
		at := netip.MustParseAddr(a)
		if got := slices.Contains(have, hostAddr{link, at}); got != (link != "") {
			t.Errorf("%s: got %v, want it on %q", a, have, link)
		}
		if link == "" && slices.ContainsFunc(have, func(h hostAddr) bool { return h.addr == at }) {
			t.Errorf("%s is none of this host's: %v", a, have)
		}
	}
}
