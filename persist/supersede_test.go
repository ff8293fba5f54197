package persist

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// formerSteps is how far the workload is in a database that is superseded.
const formerSteps = 12

// begun is what the new database begins with.
var begun = content{recordName("identity", []byte("self")): "new", recordName("peer", []byte("other")): strings.Repeat("x", 3000)}

func beginAnew(s *Store) error {
	return s.Commit(func(put func(string, []byte, []byte) error) error {
		for _, name := range slices.Sorted(maps.Keys(begun)) {
			bucket, key, _ := strings.Cut(name, "\x00")
			if err := put(bucket, []byte(key), []byte(begun[name])); err != nil {
				return err
			}
		}
		return nil
	})
}

func runSuperseding(path string) error {
	s, err := Open(testConfig(path))
	if err != nil {
		return err
	}
	for n := range uint64(formerSteps) {
		if err := commitStep(s, n+1); err != nil {
			return err
		}
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	fmt.Println("ready")
	<-told
	kept, err := s.Supersede(beginAnew)
	if err == nil {
		fmt.Println("superseded", filepath.Base(kept))
	}
	return err
}

// contentOf returns what a database that may not have been closed holds.
func contentOf(path string) (content, error) {
	if err := CheckFile(path); err != nil {
		return nil, err
	}
	s, err := Open(hastyConfig(path))
	if err != nil {
		return nil, err
	}
	c, err := loadContent(s)
	return c, errors.Join(err, s.Close())
}

// A power cut at each operation leaves one database under the name: the old one with all that was committed, or the new one
// with all that it begins with, and then the old one is whole beside it. What is left can be superseded again.
func TestPowerCutWhileSuperseded(t *testing.T) {
	rnd := testRand(t)
	h := newHistory()
	old, renewed := 0, 0
	for limit := 0; ; limit++ {
		if limit > 2000 {
			t.Fatal("it never ends")
		}
		mount := t.TempDir()
		root, unmount := mountPowerFS(t, mount, -1)
		cmd, out := startPart(t, partSupersede, filepath.Join(mount, "ring.db"))
		if !out.Scan() {
			t.Fatal("it does not begin")
		}
		root.cutAfter(limit)
		if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		done := out.Scan() // or the process ended, having met an error
		cmd.Wait()
		left := root.pull(rnd)
		unmount()
		dir := t.TempDir()
		writeAll(t, dir, left)
		path := filepath.Join(dir, "ring.db")
		got, err := contentOf(path)
		if err != nil {
			t.Fatalf("cut after %d operations: %v", limit, err)
		}
		former, _, err := Former(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case maps.Equal(got, h.at(formerSteps)) && !done:
			old++
		case maps.Equal(got, begun):
			renewed++
			if was, err := contentOf(former); err != nil || !maps.Equal(was, h.at(formerSteps)) {
				t.Fatalf("cut after %d operations: the former database is lost: %v", limit, err)
			}
		default:
			t.Fatalf("cut after %d operations, done %v: %d records that are neither database's", limit, done, len(got))
		}
		s, damage, err := OpenOrReplace(hastyConfig(path))
		if err != nil || damage != nil {
			t.Fatalf("cut after %d operations: got %v, %v, want a database", limit, damage, err)
		}
		if _, err := s.Supersede(beginAnew); err != nil {
			t.Fatalf("cut after %d operations, and once more: %v", limit, err)
		}
		if done {
			if !root.namesSynced() {
				t.Error("the names are not on disk")
			}
			t.Logf("%d operations, %d left the old one and %d the new one", limit, old, renewed)
			break
		}
	}
	if old == 0 || renewed == 0 {
		t.Errorf("the cut left the old database %d times, and the new one %d times", old, renewed)
	}
}

// Without a sync the new database is not whole when it gets the name, or the test above proves nothing.
func TestPowerCutWhileSupersededControl(t *testing.T) {
	rnd := testRand(t)
	lost := 0
	for range orShort(12, 8) {
		mount := t.TempDir()
		root, unmount := mountPowerFS(t, mount, -1)
		path := filepath.Join(mount, "ring.db")
		s, err := Open(hastyConfig(path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Supersede(beginAnew); err != nil {
			t.Fatal(err)
		}
		left := root.pull(rnd)
		unmount()
		dir := t.TempDir()
		writeAll(t, dir, left)
		if got, err := contentOf(filepath.Join(dir, "ring.db")); err != nil || !maps.Equal(got, begun) {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no power cut lost anything")
	}
}

// The last two databases stay, whatever else is in the directory, and none overwrites another.
func TestSupersededAgain(t *testing.T) {
	path := dbPath(t)
	var kept []string
	for n := range 5 {
		s := mustOpen(t, hastyConfig(path))
		if err := commitStep(s, uint64(n+1)); err != nil {
			t.Fatal(err)
		}
		name, err := s.Supersede(beginAnew)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(kept, name) {
			t.Fatalf("%s is taken twice", name)
		}
		kept = append(kept, name)
	}
	names, err := namedAfter(path, formerInfix)
	if err != nil || !slices.Equal(names, kept[3:]) {
		t.Errorf("left are %v, %v, want %v", names, err, kept[3:])
	}
	if last, at, err := Former(path); err != nil || last != kept[4] || time.Since(at) > time.Minute {
		t.Errorf("the last one is %s, %v, want %s", last, err, kept[4])
	}
	if got, err := contentOf(kept[4]); err != nil || got.last() != 5 {
		t.Errorf("it is at step %d, %v", got.last(), err)
	}
	if damage, err := LeftAside(path); err != nil || damage != nil {
		t.Errorf("one that was superseded counts as damaged: %v, %v", damage, err)
	}
}

// One that was replaced meanwhile, as by a plugin that was installed again, is left alone; so is one of which nothing new
// can be made.
func TestSupersedeFails(t *testing.T) {
	h := newHistory()
	whole := func(t *testing.T, path string, steps uint64) {
		t.Helper()
		if err := h.checkDatabase(path, steps, steps); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), newSuffix) || strings.Contains(e.Name(), formerInfix) {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
	open := func(t *testing.T, path string, steps uint64) *Store {
		t.Helper()
		s := mustOpen(t, hastyConfig(path))
		for n := range steps {
			if err := commitStep(s, n+1); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	t.Run("replaced", func(t *testing.T) {
		path := dbPath(t)
		s := open(t, path, 3)
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(walPath(path), walPath(path+".moved")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := open(t, path, 5).Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Supersede(beginAnew); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v", err)
		}
		whole(t, path, 5)
	})
	t.Run("refused", func(t *testing.T) {
		path := dbPath(t)
		s := open(t, path, 3)
		why := errors.New("no")
		if _, err := s.Supersede(func(s *Store) error { return errors.Join(beginAnew(s), why) }); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		whole(t, path, 3)
	})
	t.Run("closed", func(t *testing.T) {
		s := open(t, dbPath(t), 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Supersede(beginAnew); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("full", func(t *testing.T) {
		mount := t.TempDir()
		root, _ := mountPowerFS(t, mount, -1)
		path := filepath.Join(mount, "ring.db")
		for n := 1; ; n++ {
			s := open(t, path, 3)
			root.refuseWrite(n, syscall.ENOSPC, true)
			_, err := s.Supersede(beginAnew)
			if left := root.refuseWrite(0, 0, false); err == nil && left > 0 {
				t.Logf("%d changes", n-1)
				break
			}
			if err == nil {
				if n < 5 {
					t.Fatalf("change %d fails, and nobody is told", n)
				}
				continue // of the names, when all is done
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("change %d: %v", n, err)
			}
			got, err := contentOf(path)
			if err != nil || !maps.Equal(got, h.at(3)) && !maps.Equal(got, begun) {
				t.Fatalf("change %d fails: %d records, %v", n, len(got), err)
			}
			if maps.Equal(got, begun) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
