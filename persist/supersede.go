package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/internal/durable"
)

// formerInfix is between the name of a database and the time when another one took its place on purpose.
const (
	formerInfix = ".former-"
	formerTime  = "20060102T150405.000Z"
)

// keptFormer is how many of the databases that were superseded stay: the last one, and the one before it, as an operator
// may do it twice before he looks.
const keptFormer = 2

// Supersede closes the store and puts a new database in its place. begin fills the new one; it gets a store of its own,
// which it must not keep, and is called once more if the disk was full. The old database is kept, and its path is returned;
// of those that were kept before, the last one stays.
//
// After a crash at any point, and after any error, the path leads to one whole database: to the old one as it was, or to the
// new one with all that begin committed. When Supersede returns nil it is the new one, which is on disk under its name.
//
// The store is closed in any case. Errors: those of [Store.Close] and of begin, [ErrLocked] if another process has taken the
// database meanwhile, or has replaced it, and what the system said.
func (s *Store) Supersede(begin func(*Store) error) (kept string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin a new database in the place of %s: %w", s.path, err)
		}
	}()
	was, err := s.stat()
	if err = errors.Join(err, s.Close()); err != nil {
		return "", err
	}
	cfg := s.cfg
	old, err := openSame(cfg.Path, cfg.LockTimeout, was)
	if err != nil {
		return "", err
	}
	defer old.Close() // it keeps others away until the new one has the name
	if left, err := durable.Exists(walPath(cfg.Path)); err != nil {
		return "", err
	} else if left {
		return "", errors.New("its log is still there, as a commit has failed: open it once more before that")
	}
	temp := cfg.Path + newSuffix
	if err := fill(temp, cfg, begin); err != nil {
		return "", errors.Join(err, remove(temp))
	}
	if kept, err = keepFormer(cfg.Path); err != nil {
		return "", errors.Join(err, remove(temp))
	}
	if err := os.Rename(temp, cfg.Path); err != nil {
		return "", errors.Join(err, remove(temp), remove(kept))
	}
	if err := durable.SyncDir(filepath.Dir(cfg.Path)); err != nil {
		return "", err // the names are there, and may be the old ones after a crash
	}
	cfg.Logger.Info("database superseded", slog.String("path", cfg.Path), slog.String("kept", kept))
	if err := dropFormer(cfg.Path, kept); err != nil {
		cfg.Logger.Warn("old superseded databases not removed", slog.Any("err", err))
	}
	return kept, nil
}

// stat returns which file the store has open.
func (s *Store) stat() (os.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil, ErrClosed
	}
	return s.file.Stat()
}

// fill makes a new database at temp and has begin fill it. All of it is on disk when fill returns. A disk that is full has
// room once the ballast is given up.
func fill(temp string, cfg Config, begin func(*Store) error) error {
	ballast := cfg.Ballast
	cfg.Path, cfg.Preview, cfg.Ballast, cfg.segment = temp, nil, nil, -1 // it is one file, without a log
	err := fillOnce(cfg, begin)
	if ballast.giveUp(err) {
		err = fillOnce(cfg, begin)
	}
	return err
}

func fillOnce(cfg Config, begin func(*Store) error) (err error) {
	if err := remove(cfg.Path); err != nil { // what a process that ended meanwhile has left
		return err
	}
	if err := build(cfg.Path, cfg); err != nil {
		return err
	}
	s, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return begin(s)
}

// keepFormer gives a database one more name, under which it stays when another takes its place, and returns that. The name
// is on disk when it returns. It never takes the name of another file.
func keepFormer(path string) (kept string, err error) {
	if err := dropSame(path); err != nil {
		return "", err
	}
	for {
		kept = path + formerInfix + time.Now().UTC().Format(formerTime)
		if err := os.Link(path, kept); err == nil {
			return kept, durable.SyncDir(filepath.Dir(path))
		} else if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		time.Sleep(time.Millisecond)
	}
}

// dropSame removes further names of the database itself: a crash may have left one, behind which the old database went on.
func dropSame(path string) error {
	names, err := namedAfter(path, formerInfix)
	if err != nil {
		return err
	}
	own, err := os.Stat(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := os.Lstat(name)
		if err == nil && os.SameFile(info, own) {
			err = os.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dropFormer removes the oldest of the databases that were superseded. The last one stays, also where somebody has set the
// clock back since the one before.
func dropFormer(path, last string) error {
	names, err := namedAfter(path, formerInfix)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == last })
	var errs []error
	for _, name := range names[:max(len(names)-(keptFormer-1), 0)] {
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// Former returns the path of the database that the one at path has superseded last, and when that was; an empty path if it
// is not kept. The older one that is kept is nobody's concern.
func Former(path string) (kept string, at time.Time, err error) {
	names, err := namedAfter(path, formerInfix)
	if err != nil || len(names) == 0 {
		return "", at, err
	}
	own, err := os.Stat(path)
	if err != nil {
		return "", at, err
	}
	for _, name := range slices.Backward(names) {
		if info, err := os.Lstat(name); err == nil && !os.SameFile(info, own) {
			at, _ = time.Parse(formerTime, strings.TrimPrefix(name, path+formerInfix)) // somebody may have renamed it
			return name, at, nil
		}
	}
	return "", at, nil
}

// remove removes a file that may not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
