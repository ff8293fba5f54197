package persist

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// BallastSize is how much a [Ballast] keeps, in bytes: a log is taken in with
	// that, and 100,000 releases are written.
	BallastSize = 8 << 20

	ballastSuffix = ".ballast"
)

// Ballast is a file that keeps room on the disk of a database. A store that finds
// the disk full gives it up, so that the next [Open] has room for what is in the
// log, and for what has to be written from then on. Use [NewBallast]; it is safe for
// concurrent use.
type Ballast struct {
	path   string
	size   int64
	logger *slog.Logger

	mu      sync.Mutex
	lacking atomic.Bool
}

// NewBallast returns the ballast of the database at that path. Nothing is written
// before [Ballast.Fill].
func NewBallast(database string, logger *slog.Logger) *Ballast {
	return &Ballast{path: database + ballastSuffix, size: BallastSize, logger: logger}
}

// Lacking reports whether the ballast was given up, or could not be made, for lack
// of room, and not made since.
func (b *Ballast) Lacking() bool { return b.lacking.Load() }

// Fill makes the ballast if it is not there. It needs twice its size: with less the
// next write would have it given up again. Errors: what the system said; nothing is
// left then.
func (b *Ballast) Fill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if info, err := os.Lstat(b.path); err == nil && info.Mode().IsRegular() && info.Size() == b.size {
		b.lacking.Store(false)
		return nil
	}
	err := os.Remove(b.path) // what a process that ended meanwhile has left
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = b.create()
	}
	switch {
	case err == nil:
		if b.lacking.Swap(false) {
			b.logger.Info("room is kept on the disk again", slog.String("path", b.path), slog.Int64("bytes", b.size))
		}
	case isFull(err):
		b.lacking.Store(true)
	}
	return err
}

// create writes the file. b.mu is held.
func (b *Ballast) create() (err error) {
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(b.path) // a part of it is none
		}
	}()
	// To try would take the room that is left, if only for a moment, from a store that writes meanwhile.
	if !hasRoom(f, 2*b.size) {
		return &os.PathError{Op: "fallocate", Path: b.path, Err: unix.ENOSPC}
	}
	if err := allocate(f, 2*b.size); err != nil {
		return err
	}
	if err := f.Truncate(b.size); err != nil {
		return err
	}
	return f.Sync()
}

// hasRoom reports whether the file system of a file has so many bytes left, as far as it says.
func hasRoom(f *os.File, size int64) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil || st.Blocks == 0 {
		return true
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	return st.Bavail >= uint64(size)/uint64(unit)
}

// allocate gives an empty file that many bytes, which have a place on the disk.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS):
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
		break
	}
	piece := make([]byte, 64<<10)
	_, _ = rand.Read(piece) // never fails; zeros might take no place
	for at := int64(0); at < size; at += int64(len(piece)) {
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
	}
	return f.Sync() // a file system may say only now that it is full
}

// giveUp removes the ballast if err says that the disk is full, and reports whether
// there is room by that. b may be nil.
func (b *Ballast) giveUp(err error) bool {
	if b == nil || !isFull(err) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lacking.Store(true)
	if err := os.Remove(b.path); err != nil {
		return false // it was given up before
	}
	b.logger.Warn("the disk is full: the room that was kept on it is given up", slog.String("path", b.path), slog.Any("err", err))
	return true
}

// isFull reports whether an error says that there is no room on the disk, or that
// no more of it may be used.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
