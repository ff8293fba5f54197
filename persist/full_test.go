package persist

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringlet/ringlet/internal/durable"
)

// Each change of a file is refused in turn, of a run and of the start behind it: once, as of a disk that fails, or from
// then on until the process has ended, as of one that is full. What was acknowledged is there each time, and
// once nothing is refused any more the database opens and goes on.
func TestRefusedWrites(t *testing.T) {
	const steps = 5
	every := orShort(1, 4)
	h := newHistory()
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		for _, mode := range []string{modeNoLog, modeSync} {
			t.Run(fmt.Sprint(errno, " ", mode), func(t *testing.T) {
				mount := t.TempDir()
				root, _ := mountPowerFS(t, mount, -1)
				path := filepath.Join(mount, "ring.db")
				acked, refused, n := uint64(0), 0, 1
				for hit := true; hit; n += every {
					root.refuseWrite(n, errno, errno != syscall.EIO)
					told := tellOfFailing(t, path, mode, steps)
					hit = root.refuseWrite(0, 0, false) <= 0
					if !strings.HasPrefix(told, "not opened") {
						_, text, _ := strings.Cut(told, " ")
						text, _, _ = strings.Cut(text, " ")
						var err error
						if acked, err = strconv.ParseUint(text, 10, 64); err != nil {
							t.Fatalf("the process said %q", told)
						}
					}
					if !strings.HasPrefix(told, "passed") {
						if refused++; !strings.Contains(told, errno.Error()) {
							t.Fatalf("change %d was refused, and the process said %q", n, told)
						}
					}
					left := root.contents()
					if _, created := left["ring.db"]; !created {
						if acked > 0 {
							t.Fatalf("change %d was refused, and there is no database: %q", n, told)
						}
						continue
					}
					dir := t.TempDir()
					writeAll(t, dir, left)
					if err := h.checkDatabase(filepath.Join(dir, "ring.db"), acked, acked+1); err != nil {
						t.Fatalf("change %d was refused: %v (%q)", n, err, told)
					}
				}
				if told := tellOfFailing(t, path, mode, steps); !strings.HasPrefix(told, "passed") {
					t.Errorf("nothing is refused any more, and the process said %q", told)
				}
				if refused < 4 || n <= steps {
					t.Errorf("%d of %d processes told of a refusal", refused, n)
				}
				t.Logf("%d changes, %d processes told of a refusal, %d steps", n, refused, acked)
			})
		}
	}
}

// tellOfFailing runs a process for some steps, and returns what it says first.
func tellOfFailing(t *testing.T, path, mode string, steps int) string {
	t.Helper()
	cmd, out := startPart(t, partFail, path, mode, strconv.Itoa(steps))
	told := ""
	for out.Scan() {
		if told == "" {
			told = out.Text()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return told
}

// smallDisk mounts a file system of 4 MiB, or skips the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs the right to mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk takes all the room on a disk and returns the file that has it.
func fillDisk(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return filler
}

func smallBallast(path string) *Ballast {
	b := NewBallast(path, slog.New(slog.DiscardHandler))
	b.size = 512 << 10
	return b
}

// A commit that finds the disk full fails, and the next start has the room of the ballast: what was acknowledged is
// there, and more can be written. When there is room the ballast is made again.
func TestBallastOfACommit(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "ring.db")
	cfg := testConfig(path)
	cfg.Ballast = smallBallast(path)
	if err := cfg.Ballast.Fill(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path + ballastSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Blocks*512 < info.Size() || info.Size() != cfg.Ballast.size || info.Mode().Perm() != fileMode {
		t.Errorf("the ballast is %v with %d bytes", info.Mode(), info.Size())
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	filler := fillDisk(t, dir)
	h, n := newHistory(), uint64(0)
	for err == nil {
		if n++; n > 5000 {
			t.Fatal("the disk does not get full")
		}
		err = commitStep(s, n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if found, err := durable.Exists(path + ballastSuffix); err != nil || found || !cfg.Ballast.Lacking() {
		t.Errorf("the disk is full, and the ballast is there: %t, %v", found, err)
	}
	_ = s.Close() // which brings nothing to the disk
	if s, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	got, err := loadContent(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.check(got, n-1, n); err != nil {
		t.Error(err)
	}
	for last, end := got.last(), got.last()+10; last < end; last++ {
		if err := commitStep(s, last+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := cfg.Ballast.Fill(); !errors.Is(err, syscall.ENOSPC) || !cfg.Ballast.Lacking() {
		t.Errorf("the disk is full, and the ballast is made: %v", err)
	}
	if found, err := durable.Exists(path + ballastSuffix); err != nil || found {
		t.Errorf("a part of the ballast is left: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Ballast.Fill(); err != nil || cfg.Ballast.Lacking() {
		t.Errorf("there is room, and no ballast: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// So does a start; and one that finds no ballast says that the disk is full.
func TestBallastOfAStart(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "ring.db")
	cfg := testConfig(path)
	cfg.Ballast = smallBallast(path)
	if err := cfg.Ballast.Fill(); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, dir)
	other := testConfig(filepath.Join(dir, "other.db"))
	other.Ballast = smallBallast(other.Path)
	if _, err := Open(other); !errors.Is(err, syscall.ENOSPC) || !other.Ballast.Lacking() {
		t.Errorf("without a ballast a full disk is opened with %v", err)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A file system that cannot reserve room has the ballast written; a ballast that is no file, or a part of one, is made
// again.
func TestBallastThatIsWritten(t *testing.T) {
	mount := t.TempDir()
	mountPowerFS(t, mount, -1)
	for _, dir := range []string{mount, t.TempDir()} {
		b := smallBallast(filepath.Join(dir, "ring.db"))
		for range 2 {
			if err := b.Fill(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(b.path); err != nil || info.Size() != b.size || !info.Mode().IsRegular() {
				t.Errorf("%v, %v", info, err)
			}
			if dir == mount { // which knows no links
				continue
			}
			if err := os.Remove(b.path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/dev/null", b.path); err != nil {
				t.Fatal(err)
			}
		}
	}
}
