package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// need skips the test unless it was asked for and the machine can run it.
func need(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getenv("RINGLET_E2E") == "" {
		t.Skip("skipped: tests with real engines run with make e2e or make test (RINGLET_E2E is not set)")
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: starting an engine needs root")
	}
	if dir := os.Getenv(otherEngine); dir != "" {
		if _, err := exec.LookPath(filepath.Join(dir, "dockerd")); err != nil {
			t.Fatalf("%s: %v", otherEngine, err) // else the machine's own would be tested
		}
	}
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		t.Skipf("skipped: not installed here: %s", strings.Join(missing, ", "))
	}
}

// Built returns the path of a file that make builds, such as "ringlet", "demo" or "plugin". A missing one ends the test:
// it means that the tests were not started by make.
func Built(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "build", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run make e2e or make bench, which build it first", err)
	}
	return path
}

// root returns the folder of ringlet's module, in which the plugin's manifest lies too. Tests run in the folder of their
// package, make bench in that of a module of its own.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "config.json")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			t.Fatalf("no config.json above %s", dir)
		}
	}
}
