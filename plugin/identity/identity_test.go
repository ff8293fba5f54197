package identity

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/namespace"
)

// Where nothing can be read for now, as of a process with too many files open, no machine and no
// file is taken for another one: its database would be refused as a copy.
func TestUnreadableMachineIsNoOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ringlet.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here, machine := Place(file), Machine("host-a")
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: most.Max}); err != nil {
		t.Fatal(err)
	}
	got, id := Place(file), Machine("host-a")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	if got != "" && got != here {
		t.Errorf("the database lies at %q, and at %q when nothing can be read", here, got)
	}
	if id != 0 && id != machine {
		t.Errorf("the machine is %x, and %x when nothing can be read", machine, id)
	}
}

// What tells one start of the host from another stays as it is.
func TestStartOfTheHost(t *testing.T) {
	boot, at := HostBoot(), HostStart()
	if boot == "" || at.IsZero() || !at.Before(time.Now()) {
		t.Errorf("start %q of the host was at %v", boot, at)
	}
	if again := HostBoot(); again != boot {
		t.Errorf("start %q of the host, then %q", boot, again)
	}
	if d := HostStart().Sub(at); d.Abs() > 10*time.Millisecond {
		t.Errorf("the host started at %v, then %v later", at, d)
	}
}

// The serial number of a small board's processor tells it from others; one of zeros is none.
func TestSerialOfTheProcessor(t *testing.T) {
	for info, want := range map[string]string{
		"processor\t: 0\nModel\t\t: Board\nSerial\t\t: 10000000abcdef01\nRevision\t: a02082\n": "10000000abcdef01",
		"Serial\t\t: 0000000000000000\n":     "",
		"processor\t: 0\nvendor_id\t: AMD\n": "",
		"":                                   "",
	} {
		if got := cpuSerial(info); got != want {
			t.Errorf("of %q: %q, want %q", info, got, want)
		}
	}
}

// A machine that has no firmware to ask is known by its network card. What engines and hypervisors make is none: it comes and goes.
func TestCardOfAMachine(t *testing.T) {
	namespace.Enter(t)
	if got := cardText(); got != "" {
		t.Errorf("a machine without a card is known by %q", got)
	}
	for _, name := range []string{"cali0123456789a", "flannel.1", "lxdbr0", "incusbr0", "podman0", "docker0", "br-4f3a2b1c4f3a", "veth1234567"} {
		namespace.IP(t, "link", "add", name, "type", "veth", "peer", "name", "veth-"+name[:5])
	}
	if got := cardText(); got != "" {
		t.Errorf("a machine is known by the MAC %s, which is of a virtual interface", got)
	}
	namespace.IP(t, "link", "add", "eth0", "type", "veth", "peer", "name", "veth-eth0")
	namespace.IP(t, "link", "set", "eth0", "address", "02:42:00:00:00:07")
	if got := cardText(); got != "02:42:00:00:00:07" {
		t.Errorf("a machine is known by %q, and not by its card", got)
	}
}
