package persist

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// refusing opens a store whose database refuses one write once it is armed, and counts those that it gets afterwards.
func refusing(t *testing.T) (s *Store, armed *atomic.Bool, later *atomic.Int64, refused error) {
	t.Helper()
	armed, later, refused = new(atomic.Bool), new(atomic.Int64), errors.New("write refused")
	var gone atomic.Bool
	cfg := hastyConfig(dbPath(t))
	cfg.opened = func(db *bbolt.DB) {
		hookWriteAt(db, func(write writeAt) writeAt {
			return func(b []byte, off int64) (int, error) {
				switch {
				case gone.Load():
					later.Add(1)
				case armed.Load():
					gone.Store(true)
					return 0, refused
				}
				return write(b, off)
			}
		})
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, armed, later, refused
}

// failCheckpoint commits until a checkpoint has failed that nobody has heard of yet, and returns the last step.
func failCheckpoint(t *testing.T, s *Store, armed *atomic.Bool) (done uint64) {
	t.Helper()
	for s.checkpoint == nil {
		if s.wal != nil {
			var p puts
			if err := step(done+1, p.put); err != nil {
				t.Fatal(err)
			}
			armed.Store(!s.wal.Fits(p.batch.Bytes()) && !s.wal.TooLong(p.batch.Bytes()))
		}
		if err := commitStep(s, done+1); err != nil {
			t.Fatal(err)
		}
		done++
	}
	for len(s.checkpoint) == 0 {
		runtime.Gosched()
	}
	return done
}

// After a checkpoint that failed nothing is written any more, what was committed is in the log, and the next start
// has it.
func TestCheckpointFails(t *testing.T) {
	s, armed, later, refused := refusing(t)
	done := failCheckpoint(t, s, armed)
	if err := commitStep(s, done+1); !errors.Is(err, refused) || errors.Is(err, ErrFailed) {
		t.Errorf("got %v, want the refused write", err)
	}
	if err := commitStep(s, done+1); !errors.Is(err, ErrFailed) || !errors.Is(err, refused) {
		t.Errorf("then got %v, want ErrFailed", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := later.Load(); n > 0 {
		t.Errorf("%d writes of the database after a failed one", n)
	}
	if err := newHistory().checkDatabase(s.path, done, done); err != nil {
		t.Error(err)
	}
}

func TestCheckpointFailsBeforeClose(t *testing.T) {
	s, armed, later, refused := refusing(t)
	done := failCheckpoint(t, s, armed)
	if err := s.Close(); !errors.Is(err, refused) {
		t.Errorf("got %v, want the refused write", err)
	}
	if n := later.Load(); n > 0 {
		t.Errorf("%d writes of the database after a failed one", n)
	}
	if err := newHistory().checkDatabase(s.path, done, done); err != nil {
		t.Error(err)
	}
}

// A process that starts after a crash is killed in turn at each call that changes the disk: in taking in the log, in
// some commits with checkpoints, and at the end.
func TestKillAtEachCall(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace to kill at a system call")
	}
	const first, steps = 47, 20
	const calls = "pwrite64,fdatasync,fsync,unlinkat,ftruncate,renameat"
	c := crashAt(t, first)
	h := newHistory()
	for n := 1; ; n++ {
		path := c.lay(t)
		// Strace was looked for, the rest is ours
		cmd := exec.CommandContext(testContext(t), strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace="+calls,
			"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", calls, n), testProgram(t), partFail, path, modeSync, fmt.Sprint(steps))
		out, err := cmd.Output()
		if exit, is := errors.AsType[*exec.ExitError](err); is && strings.Contains(string(exit.Stderr), "ptrace") {
			t.Skipf("strace is not permitted here: %s", exit.Stderr)
		}
		if err := h.checkDatabase(path, first, first+steps); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if err == nil && strings.HasPrefix(string(out), "passed") {
			if n < 20 {
				t.Errorf("the process made %d calls alone", n)
			}
			return
		}
	}
}

// What is in a log that is spoiled while it is in use is not brought to the database.
func TestLogSpoiledInUse(t *testing.T) {
	for name, end := range map[string]func(s *Store) error{
		"load":   func(s *Store) error { _, err := loadContent(s); return err },
		"close":  func(s *Store) error { return s.Close() },
		"switch": func(s *Store) error { return errors.Join(s.switchSegment(), s.endCheckpoint(true)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(hastyConfig(dbPath(t)))
			if err != nil {
				t.Fatal(err)
			}
			for n := range uint64(4) {
				if err := commitStep(s, n+1); err != nil {
					t.Fatal(err)
				}
			}
			log := readFile(t, walPath(s.path))
			last := len(bytes.TrimRight(log, "\x00")) // in the last record
			f, err := os.OpenFile(walPath(s.path), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt(make([]byte, recordAlign), int64(last-1)/recordAlign*recordAlign)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			if err := end(s); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
			_ = s.Close()
		})
	}
}

// A log that is being made is waited for by nobody, and taken into use when it is ready.
func TestLogIsAwaitedByNobody(t *testing.T) {
	cfg := hastyConfig(dbPath(t))
	cfg.awaitWAL = false
	s := mustOpen(t, cfg)
	s.making = make(chan walResult, 1) // by somebody who does not hurry
	done := uint64(0)
	for ; done < 5; done++ {
		if err := commitStep(s, done+1); err != nil {
			t.Fatal(err)
		}
	}
	if s.wal != nil {
		t.Fatal("there is a log")
	}
	w, err := createWAL(s.path, cfg.segment, false)
	s.making <- walResult{w, err}
	for ; done < 10; done++ {
		if err := commitStep(s, done+1); err != nil {
			t.Fatal(err)
		}
	}
	if s.wal != w || w.Last() == 0 {
		t.Error("the log is not used")
	}
	if err := newHistory().checkDatabase(crashOf(t, s).lay(t), done, done); err != nil {
		t.Error(err)
	}
}

// A newer schema is refused with the log left as it is; an older one is migrated with what the log has.
func TestSchemaWithLog(t *testing.T) {
	path := dbPath(t)
	s := mustOpen(t, hastyConfig(path))
	for _, text := range []string{"one", "two"} {
		if err := s.Commit(func(put put) error { return put("old", []byte(text), []byte(text)) }); err != nil {
			t.Fatal(err)
		}
	}
	crashed := crashOf(t, s)

	cfg := hastyConfig(crashed.lay(t))
	cfg.Schema, cfg.Migrations = 2, map[uint64]Migration{1: upper}
	migrated := mustOpen(t, cfg)
	got, err := loadContent(migrated)
	if err != nil {
		t.Fatal(err)
	}
	want := content{recordName("old", []byte("one")): "ONE", recordName("old", []byte("two")): "TWO"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if err := migrated.Commit(func(put put) error { return put("old", []byte("two"), []byte("2")) }); err != nil {
		t.Fatal(err)
	}

	newer := crashOf(t, migrated)
	path = newer.lay(t)
	if _, err := Open(hastyConfig(path)); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("got %v, want ErrNewerSchema", err)
	}
	if left := (crash{database: readFile(t, path), log: readFile(t, walPath(path))}); !cmp.Equal(left, newer, cmp.AllowUnexported(crash{})) {
		t.Error("the files have changed")
	}
}

// A log that is not the database's own is somebody's: it is set aside, whatever is in its place.
func TestLogOfAnotherIsKept(t *testing.T) {
	c := crashAt(t, 20)
	path := madeDatabase(t, 7)
	writeAll(t, filepath.Dir(path), map[string][]byte{filepath.Base(walPath(path)): c.log})
	if err := newHistory().checkDatabase(path, 7, 7); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(path + asideInfix + "*" + walSuffix)
	if err != nil || len(kept) != 1 || !cmp.Equal(readFile(t, kept[0]), c.log) {
		t.Errorf("got %v (%v), want the log", kept, err)
	}
	s, damage, err := OpenOrReplace(hastyConfig(path))
	if err != nil || damage != nil {
		t.Fatalf("got %v, %v; want the database", damage, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Two processes with a file of the same name, of which one was removed, leave each other's log alone.
func TestLogOfReplacedDatabase(t *testing.T) {
	path := dbPath(t)
	first := mustOpen(t, hastyConfig(path))
	late := mustOpen(t, hastyConfig(dbPath(t)))
	if err := commitStep(first, 1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.Remove(walPath(path))); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, hastyConfig(path))
	for n := range uint64(3) {
		if err := commitStep(second, n+1); err != nil {
			t.Fatal(err)
		}
	}
	late.path = path // its log is made only now
	if err := errors.Join(first.Close(), commitStep(late, 1)); err != nil {
		t.Fatal(err)
	}
	if !late.noWAL {
		t.Error("it has taken the other's log")
	}
	if err := newHistory().checkDatabase(crashOf(t, second).lay(t), 3, 3); err != nil {
		t.Error(err)
	}
}

// A log that was named, and that the database did not come to take for its own, as the disk was full, has nothing in it: it
// goes at the next start, or each start on a full disk would leave one more.
func TestLogThatWasNeverUsedGoes(t *testing.T) {
	path := madeDatabase(t, 3)
	for range 3 {
		w, err := createWAL(path, hastyConfig(path).segment, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Rename(walPath(path)), w.Close()); err != nil {
			t.Fatal(err)
		}
		s, err := Open(hastyConfig(path))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := lastStep(s); err != nil || n != 3 {
			t.Errorf("the database is at step %d, %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := filepath.Glob(path + asideInfix + "*"); err != nil || len(kept) > 0 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// A copy that was put back beside the log of a later life is told of.
func TestLogOfALaterLifeIsTold(t *testing.T) {
	c := crashAt(t, 20)
	path := madeDatabase(t, 7)
	writeAll(t, filepath.Dir(path), map[string][]byte{filepath.Base(walPath(path)): c.log})
	var said bytes.Buffer
	cfg := hastyConfig(path)
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "level=WARN") || !strings.Contains(said.String(), asideInfix) {
		t.Errorf("the log says %q", said.String())
	}
}
