package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a snapshot is saved to stays what it is: a link, a pipe, /dev/stdout.
func TestSnapshotToWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, alone()))}
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	pipe, toPipe, nowhere := filepath.Join(dir, "pipe"), filepath.Join(dir, "stdout"), filepath.Join(dir, "nowhere")
	if err := os.WriteFile(target, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{link: target, toPipe: pipe, nowhere: filepath.Join(dir, "gone")} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	if got := ringlet(t, cfg, "snapshot", "save", link); got.code != 0 {
		t.Errorf("to a link: code %d, %s", got.code, got.err)
	}
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), "\"pools\"") {
		t.Errorf("the file that the link leads to has %q, %v", text, err)
	}
	for _, file := range []string{pipe, toPipe, nowhere, dir, "-"} {
		if got := ringlet(t, cfg, "snapshot", "save", file); got.code != 1 || !strings.Contains(got.err, "cannot be written") {
			t.Errorf("to %s: code %d, %s", file, got.code, got.err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, file := range []string{pipe, toPipe, dir, fmt.Sprintf("/proc/self/fd/%d", w.Fd())} {
		if got := ringlet(t, cfg, "snapshot", "save", file); !strings.Contains(got.err, file+" is not a file: name one") {
			t.Errorf("to %s: %s", file, got.err)
		}
	}
	for name, want := range map[string]os.FileMode{link: os.ModeSymlink, toPipe: os.ModeSymlink, nowhere: os.ModeSymlink, pipe: os.ModeNamedPipe} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != want {
			t.Errorf("%s is %v now (%v)", name, info.Mode(), err)
		}
	}
	if _, err := os.Lstat("-"); err == nil {
		t.Error("there is a file named -")
	}
}
