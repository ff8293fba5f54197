package database

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A database that was damaged, taken away, or written over by an older copy is a problem of the status until somebody
// removes what is kept of it, also behind another start.
func TestDatabaseReplaced(t *testing.T) {
	for what, c := range map[string]struct {
		lose func(path string, old []byte) error
		text string
	}{
		"damaged":    {func(path string, _ []byte) error { return os.WriteFile(path, []byte("damaged"), 0o600) }, "was damaged"},
		"taken away": {func(path string, _ []byte) error { return os.Remove(path) }, "was taken away"},
		"older copy": {func(path string, old []byte) error { return os.WriteFile(path, old, 0o600) }, "an older copy"},
	} {
		t.Run(what, func(t *testing.T) {
			path, old := crashed(t)
			if a, err := FindAside(path); err != nil || a.Damage != nil {
				t.Fatalf("before anything is lost: %v, %v", a.Damage, err)
			}
			if err := c.lose(path, old); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s, _, err := persist.OpenOrReplace(plugintest.Config(path))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				a, err := FindAside(path)
				if err != nil {
					t.Fatal(err)
				}
				p, wrong := a.Problem(false, false, false)
				if !wrong || p.Code != "database-replaced" || !strings.Contains(p.Text, c.text) || !strings.Contains(p.Next, filepath.Base(a.Kept)) {
					t.Errorf("%v, %+v", wrong, p)
				}
				if p, _ := a.Problem(false, false, true); !strings.HasPrefix(p.Next, "if this was the only host of its cluster, set RINGLET_BOOTSTRAP=1, ") {
					t.Errorf("to a peer that joins it says %q", p.Next)
				}
			}
			a, err := FindAside(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range a.All {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if p, wrong := a.Problem(false, false, false); wrong {
				t.Errorf("it is removed: %+v", p)
			}
		})
	}
}

// What the status says to remove is all of it: behind the next start nothing is told any more. A database that crashed
// before it was damaged has a log, and there may have been another before it.
func TestDatabaseReplacedUntilRemoved(t *testing.T) {
	path, _ := crashed(t)
	log := read(t, path+".wal")
	for range 2 {
		for name, b := range map[string][]byte{path: []byte("damaged"), path + ".wal": log} {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, damage, err := persist.OpenOrReplace(plugintest.Config(path))
		if err != nil || damage == nil {
			t.Fatal(damage, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := FindAside(path)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := a.Problem(false, false, false)
	for word := range strings.FieldsSeq(p.Next) {
		if !strings.Contains(word, ".damaged-") {
			continue
		}
		if _, wrong := a.Problem(false, false, false); !wrong {
			t.Errorf("fine before %s is removed", word)
		}
		if err := os.Remove(filepath.Join(filepath.Dir(path), word)); err != nil {
			t.Fatal(err)
		}
	}
	if p, wrong := a.Problem(false, false, false); wrong {
		t.Errorf("all that it says is removed: %+v", p)
	}
	if a, err = FindAside(path); err != nil {
		t.Fatal(err)
	}
	if p, wrong := a.Problem(false, false, false); wrong {
		t.Errorf("all that it says is removed, and the next start says %+v", p)
	}
}

// crashed returns a database that was not closed, so that it has a log, and what was in its file at its start.
func crashed(t *testing.T) (path string, old []byte) {
	t.Helper()
	running := filepath.Join(t.TempDir(), "ringlet.db")
	s, err := persist.Open(plugintest.Config(running))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old = read(t, running)
	commit := func() {
		if err := s.Commit(func(put func(bucket string, key, value []byte) error) error {
			return put("bucket", []byte("key"), []byte("value"))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); !exists(running + ".wal"); commit() { // it is made in the background
		if time.Now().After(end) {
			t.Fatal("the database gets no log")
		}
	}
	commit() // which takes it for its own
	commit()
	path = filepath.Join(t.TempDir(), "ringlet.db")
	for _, suffix := range []string{"", ".wal"} {
		if err := os.WriteFile(path+suffix, read(t, running+suffix), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, old
}

// Whoever starts the process outside Docker reads what to do where the system refuses its database.
func TestRemedies(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "make room", syscall.EDQUOT: "make room", syscall.EROFS: "mount it", syscall.ENOENT: "create the directory", syscall.EACCES: "let this process", syscall.EPERM: "let this process",
	} {
		why := &fs.PathError{Op: "open", Path: "/data/ringlet.db", Err: errno}
		if err := WithRemedy(why, "/data"); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if why := errors.New("another one"); WithRemedy(why, "/data") != why { //nolint:errorlint // the very same
		t.Error("an error of another kind is changed")
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
