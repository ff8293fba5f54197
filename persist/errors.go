package persist

import (
	"errors"
	"io/fs"
)

// Errors of opening a database.
var (
	// ErrLocked is returned when another process has the database open. The text names that process.
	ErrLocked = errors.New("database is in use")

	// ErrNewerSchema is returned when the database was written by a newer version of the program.
	// The file is intact and must not be set aside.
	ErrNewerSchema = errors.New("database was written by a newer version")

	// ErrNoMigration is returned when the database is older than this program and Config.Migrations
	// does not lead from its schema to the current one.
	ErrNoMigration = errors.New("database is too old")
)

// ErrDamaged is returned when the file does not hold what was committed to it: it is cut short, is no database,
// or a check of its content failed. Errors that merely prevent reading (permission, input/output, lock) are not damage.
var ErrDamaged = errors.New("database is damaged")

// Errors of using a store.
var (
	// ErrFailed is returned by every call that follows a failed Commit. It wraps the error of that Commit.
	ErrFailed = errors.New("database stopped after a failed commit")

	// ErrClosed is returned when a store is used after Close. It is an [fs.ErrClosed], too.
	ErrClosed error = closedError{}
)

type closedError struct{}

func (closedError) Error() string        { return "database is closed" }
func (closedError) Is(target error) bool { return target == fs.ErrClosed }

// errPanicked is what a store reports as the cause of its failure when fill or a migration panicked.
var errPanicked = errors.New("the commit panicked")
