package e2e

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// commandLimit is how long one command inside a host may take. It is far above what any command needs: the engine's own
// longest wait for an absent plugin is 15 s per address.
const commandLimit = 5 * time.Minute

// initScript is the first process of every host.
//
//go:embed init.sh
var initScript string

// A Host is a small machine: a process in pid, mount, network, host name and IPC namespaces of its own. See the package
// comment for what is private to it. Use [NewHost]; a Host must not be copied.
type Host struct {
	// Name is the host name, which is also what a plugin on this host calls itself.
	Name string

	t      testing.TB
	engine string       // the folder of its engine's programs; empty: they are the machine's own
	dir    string       // what survives PowerOff: the engine's data, configuration and logs
	pid    atomic.Int64 // of the first process, as the test sees it; 0 while the power is off
	booted bool         // once at least
	cmd    *exec.Cmd
	pipe   io.Closer // closing it ends the host
}

// NewHost starts a host named name (letters, digits and dashes) without an engine: a router, a machine on the LAN. It
// ends with the test. The test is skipped where hosts cannot be made.
func NewHost(t testing.TB, name string) *Host {
	t.Helper()
	need(t, "nsenter", "ip", "bash")
	// Short, because unix sockets are made below it, and their paths are limited to 107 bytes.
	dir, err := os.MkdirTemp("", "ringlet-e2e-") //nolint:usetesting // the host removes it, also when the test was killed
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Name: name, t: t, dir: dir, engine: os.Getenv(otherEngine)}
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err == nil && h.cmd == nil && h.booted {
			h.boot() // its power is off: it removes what was left then
		}
		h.end()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("host %s left files behind: %v", name, err)
		}
	})
	h.boot()
	return h
}

// boot starts the first process and returns when the namespaces are ready.
func (h *Host) boot() {
	h.t.Helper()
	cmd := exec.Command("bash", "-c", initScript, "init", h.Name, h.dir) //nolint:noctx // ends with the pipe
	cmd.Env = h.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true, // Ctrl-C in the terminal ends the test; the host then ends in its own order
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			h.t.Skipf("skipped: this machine does not let root make namespaces: %v", err)
		}
		h.t.Fatalf("start host %s: %v", h.Name, err)
	}
	h.cmd, h.pipe, h.booted = cmd, in, true
	h.pid.Store(int64(cmd.Process.Pid))
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		h.end()
		h.t.Fatalf("host %s did not come up: %q, %v\n%s", h.Name, line, err, problems.String())
	}
}

// end closes the pipe and returns when every process of the host is gone.
func (h *Host) end() {
	if h.cmd == nil {
		return
	}
	h.pid.Store(0) // first, so that nobody enters a process that has the number next
	_ = h.pipe.Close()
	_ = h.cmd.Wait() // the exit status of a host says nothing; the kernel has ended all of it when this returns
	h.cmd = nil
}

// PID returns the process id of the host's first process, as seen from the test. /proc/PID/ns and /proc/PID/root are the
// host's namespaces and root directory.
func (h *Host) PID() int { return int(h.pid.Load()) }

// Dir returns the directory with the host's data; it survives PowerOff and is the same path inside the host.
func (h *Host) Dir() string { return h.dir }

// Command prepares a command that runs inside the host, in all of its namespaces. Cancelling ctx ends the wait for the
// command; the command itself may go on until the host ends.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(h.PID()), "--mount", "--uts", "--ipc", "--net", "--pid", "--", name}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = append(h.environ(), "DOCKER_CONFIG="+filepath.Join(h.dir, "client"))
	cmd.Dir = "/"
	cmd.WaitDelay = 20 * time.Second // what the command leaves running may hold its output open
	return cmd
}

// Try runs a command inside the host and returns its standard output, without the newline at the end. An error carries
// the command and what it wrote to standard error; a failed command has an [*exec.ExitError] in its chain.
func (h *Host) Try(name string, args ...string) (string, error) {
	// Not the test's context: commands are run in cleanups too, when that is cancelled.
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := h.Command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s on %s: %w\n%s", strings.Join(cmd.Args[8:], " "), h.Name, err,
			strings.TrimSpace(problems.String()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// Run is Try for commands that must succeed.
func (h *Host) Run(name string, args ...string) string {
	h.t.Helper()
	out, err := h.Try(name, args...)
	if err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// File returns the content of a file of the host.
func (h *Host) File(path string) string {
	h.t.Helper()
	text, err := os.ReadFile(h.path(path))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// path returns the path, seen from the test, of a file of the host.
func (h *Host) path(inside string) string { return fmt.Sprintf("/proc/%d/root%s", h.PID(), inside) }

// write makes a file below Dir.
func (h *Host) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// environ is the environment of everything the harness starts: nothing of the user's, so that neither a proxy nor a
// Docker context of his decides about a test.
func (h *Host) environ() []string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if h.engine != "" {
		path = h.engine + ":" + path
	}
	return []string{"PATH=" + path, "HOME=/root", "LC_ALL=C"}
}

// otherEngine names the environment variable that names the folder with the programs of another engine.
const otherEngine = "RINGLET_E2E_ENGINE"
