package lastwords

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was written: %v", err)
	}
	if err := Forget(dir); err != nil {
		t.Errorf("nothing is there to forget: %v", err)
	}
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.FixedZone("", 3600))
	for _, why := range []error{errors.New("database /data/ringlet.db: is locked"), errors.Join(errors.New("one"), errors.New("two"))} {
		if err := Write(dir, at, why); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir); err != nil || !got.At.Equal(at) || got.Text != why.Error() {
			t.Errorf("wrote %q, read %+v, %v", why, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, Name)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Forget(dir); err != nil {
		t.Error(err)
	}
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was forgotten: %v", err)
	}
	if err := Write(filepath.Join(dir, "none"), at, errors.New("why")); err == nil {
		t.Error("there is no such directory, and it was written")
	}
}

// A full disk leaves nothing.
func TestWordsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs the right to mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := Write(dir, time.Now(), errors.New("why")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got error %v, want %v", err, syscall.ENOSPC)
	}
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is there: %v", err)
	}
}

// What was cut short, or somebody else left, is not taken for a reason.
func TestWordsCutShort(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "2026-11-23T09:00:00Z", "2026-11-23T09:00:00Z\n\n", "yesterday\nwhy\n"} {
		if err := os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, Name), []byte("2026-11-23T09:00:00Z\n"+strings.Repeat("x", 2*maxBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir); err != nil || len(got.Text) > maxBytes {
		t.Errorf("read %d bytes, %v", len(got.Text), err)
	}
}
