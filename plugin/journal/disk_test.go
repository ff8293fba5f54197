package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/plugin/events"
)

// While nothing can be written the whole journal, which may have 64 MiB, is not
// read again every few seconds.
func TestFullDiskCostsLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		var text []byte
		for n := range 5000 {
			r := record{Event: events.Event{ID: events.ID{Number: uint64(n + 1)}, Time: time.Now(), Kind: events.Freed, Pool: lab, Address: addr(n), Text: "freed"}}
			text, _ = r.appendLine(text)
		}
		if err := os.MkdirAll(b.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.dir, prefix+"20260101T000000.000000000Z"+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
		// Nothing is there to be read, and nothing can be made there.
		if err := os.Symlink("/nowhere/at/all", filepath.Join(b.dir, current)); err != nil {
			t.Fatal(err)
		}
		before := bytesRead(t)
		b.start()
		defer func() { b.stop() }()
		b.grant(addr(1), "web", false)
		time.Sleep(10 * time.Minute)
		b.settle()
		if times := (bytesRead(t) - before) / len(text); times < 2 || times > 10 {
			t.Errorf("the journal was read %d times in ten minutes in which it could not be written", times)
		}
	})
}

// bytesRead is what this process has read from files.
func bytesRead(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	_, _ = fmt.Fscanf(bytes.NewReader(text), "rchar: %d", &n)
	return n
}

// The clock was ahead while a file became full, and is right again: the file
// that becomes full now is the newest, and not the one to be removed.
func TestClockSetBackBetweenFiles(t *testing.T) {
	f := files{dir: t.TempDir(), maxBytes: 1, maxFiles: 3}
	defer f.end()
	write := func(number uint64) {
		r := record{Event: events.Event{ID: events.ID{Boot: 1, Number: number}, Kind: events.Granted, Address: addr(1)}}
		if err := f.append(t.Context(), []record{r}, false); err != nil { // fills a file
			t.Fatal(err)
		}
	}
	write(1)
	full, err := f.full()
	if err != nil {
		t.Fatal(err)
	}
	ahead := prefix + time.Now().AddDate(3, 0, 0).UTC().Format(stamp) + suffix
	if err := os.Rename(filepath.Join(f.dir, full[0]), filepath.Join(f.dir, ahead)); err != nil {
		t.Fatal(err)
	}
	write(2)
	write(3)
	var got []string
	_ = f.read(t.Context(), hurried, func([]byte) bool { return true }, func(r *record) { got = append(got, r.ID.String()) })
	if fmt.Sprint(got) != "[1-2 1-3]" {
		t.Errorf("the journal has %v, want the two newest in order", got)
	}
}

// The last of the file system is the database's.
func TestJournalLeavesRoom(t *testing.T) {
	f := files{dir: t.TempDir(), maxBytes: 1 << 20, maxFiles: 2, reserve: math.MaxUint64}
	defer f.end()
	r := record{Event: events.Event{ID: events.ID{Boot: 1, Number: 1}, Kind: events.Granted, Address: addr(1)}}
	if err := f.append(t.Context(), []record{r}, false); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("written to a file system that has little left: %v", err)
	}
	f.reserve = reserve
	if err := f.append(t.Context(), []record{r}, false); err != nil {
		t.Error(err)
	}
}

// A file system that does not tell how large it is may have room.
func TestJournalWhereNobodyTellsTheRoom(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=0"); err != nil {
		t.Skipf("needs the right to mount a file system without a limit: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	f := files{dir: dir, maxBytes: 1 << 20, maxFiles: 2, reserve: reserve}
	defer f.end()
	r := record{Event: events.Event{ID: events.ID{Boot: 1, Number: 1}, Kind: events.Granted, Address: addr(1)}}
	if err := f.append(t.Context(), []record{r}, false); err != nil {
		t.Error(err)
	}
}
