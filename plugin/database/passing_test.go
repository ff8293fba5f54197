package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
)

// What can pass keeps a process waiting, and what an operator has to change ends it.
func TestWhatPasses(t *testing.T) {
	for _, err := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
		persist.ErrLocked, &node.StopError{Cause: io.ErrUnexpectedEOF}, persist.ErrNewerSchema, persist.ErrNoMigration,
		UnusableError{Err: ipam.ErrForeign},
	} {
		if !Passes(fmt.Errorf("open database: %w", WithRemedy(err, "/data"))) {
			t.Errorf("%v ends the process", err)
		}
	}
	for _, err := range []error{
		syscall.EACCES, syscall.EISDIR, syscall.ENOENT, errors.New("the settings are wrong"), context.Canceled,
	} {
		if Passes(fmt.Errorf("open database: %w", err)) {
			t.Errorf("%v keeps the process waiting", err)
		}
	}
}
