package durable

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SyncData brings what was written to a file to the disk (fdatasync).
func SyncData(f *os.File) error {
	for {
		switch err := unix.Fdatasync(int(f.Fd())); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// SyncDir brings the names in a directory to the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a directory and say so; there the names are as durable as they get.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
