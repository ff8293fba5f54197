package persist

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/bbolt"
)

// defaultLockTimeout covers a predecessor that is still closing its database.
const defaultLockTimeout = 5 * time.Second

// Config says where a database is and what the caller keeps in it.
type Config struct {
	// Path is the file of the database. It is created when missing, with mode 0600, and so is its directory
	// (not the directory's parents) with mode 0700. Required.
	Path string

	// LockTimeout is how long to wait for another process to close the database. Default 5 s; negative is an error.
	LockTimeout time.Duration

	// Schema is the version of the records that the caller reads and writes, 1 or more. Required.
	Schema uint64

	// Migrations holds at key n the step that turns records of schema n into records of schema n+1. All steps from
	// the database's schema to Schema run in one transaction. Steps before the oldest supported schema may be left out.
	Migrations map[uint64]Migration

	// Preview receives the records while Open checks the file. It may be nil.
	Preview Preview

	// Ballast is given up when the disk is full: by Open, which then tries again, and by a Commit that fails. It may be nil.
	Ballast *Ballast

	// Logger takes what an operator should know. Required; slog.DiscardHandler for none.
	Logger *slog.Logger

	// opened, for tests, is called with the database before its first transaction.
	opened func(*bbolt.DB)
	// noSync, for tests, leaves out every sync, to show that tests notice.
	noSync bool
	// awaitWAL, for tests, has the first commit wait for the log.
	awaitWAL bool
	// segment, for tests, is the size of a segment of the log, in bytes, if it is not 0; negative for no log.
	segment int64
}

// Preview is shown the records of a database while [Open] checks it, so that a start need not read the file again with
// [Store.Load]. Of a database that was not closed, or is going to be migrated, it is shown nothing.
type Preview interface {
	// Begin is called before the first record, and once more if the file was damaged and another takes its place.
	Begin()
	// Visit is called for each record, in order of bucket and key, as [Store.Load] does it. The record itself is sound;
	// but only End says that none is missing, or of another time.
	Visit(bucket string, key, value []byte)
	// End is called when the database is open, and holds what was shown since Begin and nothing else.
	End()
}

func (cfg Config) withDefaults() Config {
	if cfg.LockTimeout == 0 {
		cfg.LockTimeout = defaultLockTimeout
	}
	if cfg.segment == 0 {
		cfg.segment = segmentSize
	}
	return cfg
}

// validate reports every problem at once.
func (cfg Config) validate() error {
	var errs []error
	if cfg.Path == "" {
		errs = append(errs, errors.New("path of the database is empty"))
	}
	if cfg.LockTimeout < 0 {
		errs = append(errs, fmt.Errorf("lock timeout of the database is negative: %v", cfg.LockTimeout))
	}
	if cfg.Schema == 0 {
		errs = append(errs, errors.New("schema of the database is 0, the first one is 1"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("logger of the database is missing"))
	}
	for from, step := range cfg.Migrations {
		if step == nil || from == 0 || from >= cfg.Schema {
			errs = append(errs, fmt.Errorf("migration from schema %d does not lead towards schema %d", from, cfg.Schema))
		}
	}
	return errors.Join(errs...)
}
