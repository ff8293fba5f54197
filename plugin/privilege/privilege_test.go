package privilege_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/plugin/privilege"
)

const (
	dropping = "TEST_DROPS" // what a child process is to give up
	none     = "0000000000000000"
	netRaw   = "0000000000002000"
)

// sets are the lines of /proc/PID/status that tell what a thread may do.
var sets = []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"}

// A process with many threads gives up what it is to give up on each of them, also on one that starts afterwards.
func TestDrop(t *testing.T) {
	if what := os.Getenv(dropping); what != "" {
		child(what)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, who has something to give up")
	}
	for _, tt := range []struct{ what, holds string }{{"all but net_raw", netRaw}, {"all", none}, {"twice", none}} {
		t.Run(tt.what, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDrop$")
			cmd.Env = append(os.Environ(), dropping+"="+tt.what, "TMPDIR="+t.TempDir())
			text, err := cmd.CombinedOutput()
			out := string(text)
			if strings.Contains(out, "was built with cgo") {
				t.Skip("this test was built with cgo, as the race detector wants it")
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := fmt.Sprintf("CapInh %s CapPrm %s CapEff %s CapBnd %s CapAmb %s NoNewPrivs 1", none, tt.holds, tt.holds, none, none)
			threads := 0
			for line := range strings.Lines(out) {
				if rest, ok := strings.CutPrefix(line, "thread "); ok {
					threads++
					if got := strings.TrimSpace(rest); got != want {
						t.Errorf("a thread has %s\nwant %s", got, want)
					}
				}
			}
			if threads < 8 {
				t.Errorf("%d threads were looked at, want 8 and more:\n%s", threads, out)
			}
			if packets := strings.Contains(out, "packet socket: opened"); packets != (tt.holds == netRaw) {
				t.Errorf("a packet socket can be opened: %v\n%s", packets, out)
			}
			if !strings.Contains(out, "another's file: permission denied") {
				t.Errorf("a file of another user can be read:\n%s", out)
			}
		})
	}
}

// child gives up what it is told to, and prints what its threads have then.
func child(what string) {
	dir, err := os.MkdirTemp("", "ringlet-privilege-")
	if err != nil {
		fatal(err)
	}
	defer os.RemoveAll(dir)
	others := filepath.Join(dir, "others")
	if err := errors.Join(os.WriteFile(others, nil, 0o600), os.Chown(others, 65534, 65534)); err != nil {
		fatal(err)
	}
	release := hold(8)
	if err := privilege.Drop(what != "all"); err != nil {
		fatal(err)
	}
	if what == "twice" {
		if err := privilege.Drop(false); err != nil {
			fatal(err)
		}
	}
	defer hold(8)()
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, task := range tasks {
		fmt.Println("thread", rights(task))
	}
	release()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	if err == nil {
		_ = unix.Close(fd)
		fmt.Println("packet socket: opened")
	}
	_, err = os.ReadFile(others)
	fmt.Println("another's file:", errors.Unwrap(err))
}

func fatal(err error) {
	fmt.Println(err)
	os.Exit(1)
}

// hold keeps n threads from going until the function that it returns is called.
func hold(n int) (release func()) {
	held, end := sync.WaitGroup{}, make(chan struct{})
	held.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			held.Done()
			<-end
		}()
	}
	held.Wait()
	return func() { close(end) }
}

// rights returns the lines of a status that tell what a thread may do, in one.
func rights(status string) string {
	text, err := os.ReadFile(status)
	if err != nil {
		return err.Error()
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(sets, name) {
			found[name] = strings.TrimSpace(value)
		}
	}
	if len(found) != len(sets) {
		return fmt.Sprint("only ", slices.Sorted(maps.Keys(found)))
	}
	var words []string
	for _, name := range sets {
		words = append(words, name, found[name])
	}
	return strings.Join(words, " ")
}
