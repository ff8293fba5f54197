package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ringlet/ringlet/plugin/plugintest"
)

// Whoever read the log may be gone, as journald that was killed: the process lives on, and
// ends as it is told to.
func TestNobodyReadsTheLog(t *testing.T) {
	const serving = "TEST_SERVES_IN"
	if dir := os.Getenv(serving); dir != "" { // the process itself
		os.Exit(program([]string{
			"ringlet", "serve", "--data", dir, "--docker-socket", "",
			"--socket", filepath.Join(dir, "ringlet.sock"), "--admin-socket", filepath.Join(dir, "admin.sock"),
		}, run))
	}
	dir := t.TempDir()
	out, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNobodyReadsTheLog$")
	cmd.Env = append(os.Environ(), serving+"="+dir, "RINGLET_NAME=host-a", "RINGLET_HTTP=off", "LOG_LEVEL=debug")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = log.Close() // the process has it
	local := plugintest.Client(filepath.Join(dir, "admin.sock"))
	defer local.CloseIdleConnections()
	serves := func() bool { return answers(t, local, "http://ringlet/v1/status", nil) }
	plugintest.Eventually(t, "it serves", serves)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // with a line of the log each
		if !serves() {
			t.Error("it does not answer any more")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
