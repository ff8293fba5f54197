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
	"github.com/ringlet/ringlet/persist/wal"
)

// asideInfix is between the name of a database and the time when it was set aside.
const asideInfix = ".damaged-"

// Damage says that a database could not be used and that an empty one took its place.
type Damage struct {
	// Kept is the path that the damaged file has now. Only [OpenOrReplace] removes it, once several newer ones are kept.
	Kept string
	// Cause is what was found; it wraps [ErrDamaged].
	Cause error
	// LogAlone says that nothing but the log of the database is kept: it was taken away, or another one was written over it.
	LogAlone bool
	// All are the paths of all that is kept, also of earlier ones: databases, and their logs. [LeftAside] tells them.
	All []string
}

// String tells an operator what was found and where the file is; what it means for him is the caller's to add.
func (d *Damage) String() string {
	return fmt.Sprintf("%v; the file is kept as %s and an empty database took its place", d.Cause, d.Kept)
}

// OpenOrReplace is [Open], but a database that is damaged, and only such a one, is set aside and kept; the store returned
// is a new, empty one then, and Damage is not nil. The caller must act on that: what the database had promised to others
// is forgotten.
//
// A database that is gone, and has left its log, is damaged, too. If an earlier start set a database aside and ended before
// anything was committed to a new one, the damage is reported once more: nothing else on disk says that this is no first
// start.
// Of the databases that were set aside it keeps the first and the newest, and removes the others.
// Errors: as Open, except [ErrDamaged]. After an error the file is where it was, unless the text says else.
func OpenOrReplace(cfg Config) (*Store, *Damage, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	var damage *Damage
	s, file, err := open(cfg)
	if errors.Is(err, ErrDamaged) {
		kept, asideErr := setAside(cfg.Path, cfg.LockTimeout, file)
		if asideErr != nil {
			return nil, nil, fmt.Errorf("%w (as it is damaged: %s)", asideErr, err.Error())
		}
		cfg.Logger.Error("damaged database set aside", slog.String("path", cfg.Path), slog.String("kept", kept), slog.Any("err", err))
		damage = &Damage{Kept: kept, Cause: err}
		s, err = Open(cfg)
	}
	if err != nil {
		if damage != nil {
			err = fmt.Errorf("%w (before that: %v)", err, damage)
		}
		return nil, nil, err
	}
	thinAside(cfg.Path, cfg.Logger)
	if damage == nil && s.guard.count == 0 {
		if damage, err = LeftAside(cfg.Path); err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
	}
	return s, damage, nil
}

// LeftAside reports the newest file that was set aside from the database at path, nil if there is none: by this start, or by
// an earlier one.
func LeftAside(path string) (*Damage, error) {
	all, err := namedAfter(path, asideInfix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	for _, kept := range slices.Backward(all) { // in order of name, and so of time
		database, isLog := strings.CutSuffix(kept, walSuffix)
		if there, err := durable.Exists(database); err != nil {
			return nil, fmt.Errorf("open database %s: %w", path, err)
		} else if there {
			return &Damage{Kept: database, Cause: fmt.Errorf("%w: an earlier start found so and set it aside", ErrDamaged), All: all}, nil
		}
		if isLog {
			return &Damage{Kept: kept, Cause: fmt.Errorf("%w: it was gone, and nothing but its log there", ErrDamaged), LogAlone: true, All: all}, nil
		}
	}
	return nil, nil
}

// newestAside is how many databases are kept that were set aside last, beside the one that was first: that has what people had
// given out, and each later one only what came after it.
const newestAside = 3

// thinAside removes databases that were set aside, with their logs, so that a disk that damages them again and again is not
// filled: all but the first and the newest. What cannot be removed stays, and is tried again at the next start.
func thinAside(path string, logger *slog.Logger) {
	all, err := namedAfter(path, asideInfix)
	if err != nil {
		return // the caller that needs them says so
	}
	var bases []string
	for _, file := range all {
		if base := strings.TrimSuffix(file, walSuffix); !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	if len(bases) <= 1+newestAside {
		return
	}
	for _, base := range bases[1 : len(bases)-newestAside] {
		for _, file := range []string{base, walPath(base)} {
			if err := os.Remove(file); err == nil {
				logger.Info("old damaged database removed", slog.String("path", file))
			} else if !errors.Is(err, fs.ErrNotExist) {
				logger.Warn("old damaged database not removed", slog.String("path", file), slog.Any("err", err))
			}
		}
	}
}

// namedAfter returns the paths of the files beside a database whose names begin with its own and the infix, in order of name.
func namedAfter(path, infix string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+infix) {
			names = append(names, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return names, nil
}

// openSame locks the database at path, which has to be that file still.
func openSame(path string, timeout time.Duration, file os.FileInfo) (*os.File, error) {
	f, err := openLocked(path, true, timeout)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(now, file) {
		err = errReplaced()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// setAside renames a database to its path with ".damaged-" and the time in UTC appended, and returns that name; a log
// that it has goes with it. It never overwrites a file, and the rename is on disk when it returns. The path has to lead to
// that file still: another process may have set it aside meanwhile, and made a new one. Errors: [ErrLocked], or what the
// system said.
func setAside(path string, timeout time.Duration, file os.FileInfo) (kept string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("set aside database %s: %w", path, err)
		}
	}()
	f, err := openSame(path, timeout, file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	kept, err = reserve(asideName(path), "")
	if err != nil {
		return "", err
	}
	// The log goes first: a database without its log is found to be damaged again, a log without its database means
	// nothing.
	hadLog := true
	if err := os.Rename(walPath(path), walPath(kept)); errors.Is(err, fs.ErrNotExist) {
		hadLog = false
	} else if err != nil {
		return "", errors.Join(err, os.Remove(kept))
	}
	if err := os.Rename(path, kept); err != nil {
		if hadLog {
			err = errors.Join(err, os.Rename(walPath(kept), walPath(path)))
		}
		return "", errors.Join(err, os.Remove(kept))
	}
	return kept, durable.SyncDir(filepath.Dir(path))
}

// asideName returns the name under which a database is set aside now.
func asideName(path string) string {
	return path + asideInfix + time.Now().UTC().Format("20060102T150405Z")
}

// clearWAL sees to it that a database that needs no log has none. The one with that id was its own, and goes, as does one in
// which nothing was ever written: the database did not come to take it for its own, as on a full disk. Any other may be
// needed elsewhere, and is set aside as kept.
func clearWAL(path string, id wal.ID) (kept string, err error) {
	got, empty, err := wal.Identify(walPath(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case got == id || empty:
		return "", os.Remove(walPath(path))
	}
	return keepWAL(path)
}

// keepWAL sets the log of another database, or of one that is gone, aside, and returns where.
func keepWAL(path string) (kept string, err error) {
	if found, err := durable.Exists(walPath(path)); err != nil || !found {
		return "", err
	}
	if kept, err = reserve(asideName(path), walSuffix); err != nil {
		return "", err
	}
	if err := os.Rename(walPath(path), kept); err != nil {
		return "", errors.Join(err, os.Remove(kept))
	}
	return kept, durable.SyncDir(filepath.Dir(path))
}

// reserve creates an empty file of that name and suffix, or of the first free name with a number behind it, to rename
// onto. A name is free if no log has it either.
func reserve(name, suffix string) (string, error) {
	for n, free := 2, name; ; n++ {
		taken, err := durable.Exists(walPath(free))
		if err != nil {
			return "", err
		}
		if !taken {
			f, err := os.OpenFile(free+suffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
			if err == nil {
				return free + suffix, f.Close()
			}
			if !errors.Is(err, fs.ErrExist) {
				return "", err
			}
		}
		free = fmt.Sprintf("%s-%d", name, n)
	}
}
