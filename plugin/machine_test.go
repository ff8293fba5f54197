package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Where nothing can be read for now, as of a process with too many files open, no machine and no
// file is taken for another one: its database would be refused as a copy.
func TestUnreadableMachineIsNoOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), databaseName)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here, machine := place(file), machineID("host-a")
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: most.Max}); err != nil {
		t.Fatal(err)
	}
	got, id := place(file), machineID("host-a")
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
	boot, at := hostBoot(), hostStart()
	if boot == "" || at.IsZero() || !at.Before(time.Now()) {
		t.Errorf("start %q of the host was at %v", boot, at)
	}
	if again := hostBoot(); again != boot {
		t.Errorf("start %q of the host, then %q", boot, again)
	}
	if d := hostStart().Sub(at); d.Abs() > 10*time.Millisecond {
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
