package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/internal/durable"
	"github.com/ringlet/ringlet/persist/wal"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// newSuffix ends the name under which a database is prepared before it gets its own.
const newSuffix = ".new"

// Open opens the database, creates it when there is none, and migrates it when it is older than cfg.Schema. A file or
// mode that is more open than 0600 is narrowed. It checks all of the file first, as [CheckFile] does, and sees to it that
// what it has found is on disk.
//
// A file of no bytes is damaged, not new: a database gets its name only when it is complete and on disk.
//
// Errors: [ErrLocked], [ErrDamaged], [ErrNewerSchema], [ErrNoMigration], an error of a migration, of cfg, or of the system.
func Open(cfg Config) (*Store, error) {
	s, _, err := open(cfg)
	return s, err
}

// open is Open, and says which file it was that was opened, nil if it was none.
func open(cfg Config) (*Store, os.FileInfo, error) {
	s, info, err := openOnce(cfg)
	if cfg.Ballast.giveUp(err) {
		return openOnce(cfg)
	}
	return s, info, err
}

func openOnce(cfg Config) (*Store, os.FileInfo, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	if err := create(cfg); err != nil {
		return nil, nil, fmt.Errorf("create database %s: %w", cfg.Path, err)
	}
	f, err := openLocked(cfg.Path, true, cfg.LockTimeout)
	if err != nil {
		return nil, nil, fmt.Errorf("open database %s: %w", cfg.Path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open database %s: %w", cfg.Path, err), f.Close())
	}
	s, err := openFile(f, cfg)
	if err != nil {
		return nil, info, fmt.Errorf("open database %s: %w", cfg.Path, err)
	}
	return s, info, nil
}

// openFile opens the database in an open file, which it closes if that fails.
func openFile(f *os.File, cfg Config) (_ *Store, err error) {
	c, err := checkOpen(f, cfg.previewOf)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := settleFile(f, c, cfg); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	db, err := openBolt(cfg, func(string, int, fs.FileMode) (*os.File, error) { return f, nil })
	if err != nil { // and bbolt has closed the file
		return nil, err
	}
	s := &Store{path: cfg.Path, cfg: cfg, db: db, file: f, checked: c, noWAL: cfg.segment < 0}
	opened := false
	defer func() { // also when a migration panics
		if !opened {
			err = errors.Join(err, s.Close())
		}
	}()
	if cfg.opened != nil {
		cfg.opened(db)
	}
	if err := s.prepare(cfg); err != nil {
		return nil, err
	}
	if c.preview != nil {
		c.preview.End()
	}
	s.cfg.Preview, c.preview = nil, nil // what it has is its own
	opened = true
	return s, nil
}

// previewOf returns the preview for a file whose records are what the database will hold, else nil: those of an older schema
// are going to be migrated, and what a log has is going to be brought over.
func (cfg Config) previewOf(h header) Preview {
	if h.logged || h.schema != cfg.Schema {
		return nil
	}
	return cfg.Preview
}

// settleFile sees to it that what the check has found is on disk, before anybody goes by it. A sync that failed may have left
// the last meta page in the memory of the kernel alone, which shows it to every reader and writes it no more: so it is
// written once more. The pages that it leads to were synced before it. A process that was killed may not have come to sync
// the name.
func settleFile(f *os.File, c *checked, cfg Config) error {
	if cfg.noSync {
		return nil
	}
	if err := c.file.WriteMeta(f); err != nil {
		return fmt.Errorf("write its last meta page once more: %w", err)
	}
	if err := durable.SyncData(f); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(cfg.Path))
}

// prepare brings the database to the current schema.
func (s *Store) prepare(cfg Config) error {
	h := s.checked.header
	s.guard = h.guard
	if h.schema > cfg.Schema {
		return fmt.Errorf("%w: it has schema %d and this version knows up to %d: run the newer version again",
			ErrNewerSchema, h.schema, cfg.Schema)
	}
	if err := s.replay(h); err != nil {
		return err
	}
	if h.schema < cfg.Schema {
		return s.migrate(h.schema, cfg)
	}
	return nil
}

// replay brings what a process that did not close the database left in its log to the database, which is whole then.
func (s *Store) replay(h header) error {
	if h.logged {
		list, batches, err := readWAL(s.path, h)
		if err != nil {
			return err
		}
		if err := s.transact(list, (*batch).putNoWAL); err != nil {
			return fmt.Errorf("bring the log to the database: %w", err)
		}
		s.cfg.Logger.Info("database recovered from its log", slog.Int("batches", batches))
	}
	kept, err := clearWAL(s.path, h.wal)
	if err != nil {
		s.noLog(err)
	}
	if kept != "" {
		s.cfg.Logger.Warn("foreign database log set aside", slog.String("path", s.path), slog.String("kept", kept),
			slog.String("next", "the database may be an old copy, see ringlet status"))
	}
	return nil
}

// readWAL returns what the database with this header needs of its log, and how many batches that is. Errors:
// [ErrDamaged], or what the system said.
func readWAL(database string, h header) ([]wal.Entry, int, error) {
	list, batches, err := wal.Read(walPath(database), h.wal, nil, h.applied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("%w: the last of it is in its log %s, which is not there: "+
			"if you moved or copied the database, bring the log, too", ErrDamaged, walPath(database))
	}
	return list, batches, asDamage(err)
}

// openBolt has bbolt open what open opens.
func openBolt(cfg Config, open func(string, int, fs.FileMode) (*os.File, error)) (*bbolt.DB, error) {
	// No error that bbolt adds to those of open is damage: after the check, an "invalid database" is a failed read.
	db, err := bbolt.Open(cfg.Path, fileMode, &bbolt.Options{
		Timeout:    cfg.LockTimeout, // never reached, our own lock comes first
		OpenFile:   open,
		NoSync:     cfg.noSync,
		NoGrowSync: cfg.noSync,
		// Of a file without a list of free pages, as earlier versions of this package left it, bbolt would make one with
		// it by a transaction of its own, which has no guard.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	})
	if err != nil {
		return nil, err
	}
	// Each transaction writes the list, which costs it a page: without it a start has to read the whole tree to find
	// out what is free, and that takes a fifth of its time. Transactions are few where there is a log.
	db.NoFreelistSync = false
	return db, nil
}

// openLocked opens a file, and locks it, for reading and writing or for reading alone. bbolt locks it too, which succeeds
// at once because the lock belongs to the open file; but only an own lock can name its holder, and only behind the lock
// the checks hold.
func openLocked(path string, write bool, timeout time.Duration) (_ *os.File, err error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := lockFile(f, write, timeout); err != nil {
		return nil, err
	}
	if same, err := durable.IsAt(f, path); err != nil {
		return nil, err
	} else if !same {
		return nil, errReplaced()
	}
	if !write {
		return f, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&^fileMode != 0 {
		err = f.Chmod(mode & fileMode)
	}
	return f, err
}

// errReplaced is the error for a path that leads to another file than a moment ago.
func errReplaced() error {
	return fmt.Errorf("%w: another process has just replaced it: start again", ErrLocked)
}

// create makes sure that the file exists. The database is built under another name and renamed when it is on disk, so
// whatever bears the name of a database once was a whole one. A lock on the directory keeps two processes apart.
func create(cfg Config) error {
	if _, err := os.Lstat(cfg.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(cfg.Path)
	if err := os.Mkdir(dir, dirMode); err == nil {
		if err := durable.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := lockFile(lock, true, cfg.LockTimeout); err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	if _, err := os.Lstat(cfg.Path); !errors.Is(err, fs.ErrNotExist) {
		return err // somebody was faster
	}
	if _, err := keepWAL(cfg.Path); err != nil {
		return err
	}
	temp := cfg.Path + newSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := build(temp, cfg); err != nil {
		_ = os.Remove(temp) // the next attempt would remove it, too
		return err
	}
	if err := os.Rename(temp, cfg.Path); err != nil {
		return err
	}
	if err := durable.SyncDir(dir); err != nil {
		return err
	}
	cfg.Logger.Info("database created", slog.String("path", cfg.Path), slog.Uint64("schema", cfg.Schema))
	return nil
}

// build writes a new database that holds a header and nothing else.
func build(path string, cfg Config) (err error) {
	cfg.Path = path
	db, err := openBolt(cfg, os.OpenFile)
	if err != nil {
		return err
	}
	s := &Store{path: path, cfg: cfg, db: db}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.initialize(cfg.Schema)
}
