package driver

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	path := socketPath(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %v, want 0600", got)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory %v: %v", info, err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("opened twice: %v", err)
	}
	l.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("socket is left behind: %v", err)
	}
}

func TestListenRemovesStaleSocket(t *testing.T) {
	path := socketPath(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as if the process was killed
	l.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	l, err = Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestListenRefuses(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ path, want string }{
		"a file":             {file, "is no socket"},
		"below a file":       {filepath.Join(file, "x.sock"), "not a directory: choose another path"},
		"too long":           {filepath.Join(dir, strings.Repeat("x", 108)), "choose a shorter one"},
		"a dangling symlink": {link(t, dir), "is no socket"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(tt.path)
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file has %q: %v", b, err)
	}
}

func link(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	return path
}
