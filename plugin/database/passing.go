package database

import (
	"errors"
	"slices"
	"syscall"

	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
)

// Passes reports whether what keeps the process from serving can pass by itself,
// or when somebody sees to the host: the process stays and tries again. All
// other reasons end it, as settings that are wrong, or files that it may not read.
func Passes(err error) bool {
	if IsUnusable(err) {
		return true // it says so to whoever asks, and an engine that starts is answered
	}
	if _, stopped := errors.AsType[*node.StopError](err); stopped {
		return true // the next start finds out how the disk is
	}
	return errors.Is(err, persist.ErrLocked) ||
		slices.ContainsFunc(passing(), func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

// UnusableError is a database that can be read, and of which no peer can be made: a newer
// version has written it, say, or it does not fit the settings.
type UnusableError struct{ Err error }

// Error implements error.
func (u UnusableError) Error() string { return u.Err.Error() }

// Unwrap returns the reason.
func (u UnusableError) Unwrap() error { return u.Err }

// IsUnusable reports whether a database can be read, and no peer can be made of it.
func IsUnusable(err error) bool {
	_, ok := errors.AsType[UnusableError](err)
	return ok || errors.Is(err, persist.ErrNewerSchema) || errors.Is(err, persist.ErrNoMigration)
}

// passing are the errors of the system that [Passes] reports.
func passing() []syscall.Errno {
	return []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, // room is made
		syscall.EROFS,                                   // mounted again, to be written
		syscall.EIO, syscall.EREMOTEIO, syscall.EUCLEAN, // the disk, or its file system, is mended and mounted
		syscall.ENODEV, syscall.ENXIO, syscall.ENOMEDIUM, // the disk is back
		syscall.ESTALE, syscall.ETIMEDOUT, syscall.EHOSTDOWN, // the file server is back
		syscall.ENOTCONN, syscall.ECONNABORTED, // a file system in user space is mounted again
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ENOLCK, syscall.EAGAIN, // others need less
		syscall.EBUSY, syscall.EINTR,
	}
}
