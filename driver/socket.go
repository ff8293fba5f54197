package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/parse"
)

const (
	// socketMode is that of the socket: the engine is root, and a program that may
	// connect may take addresses.
	socketMode = 0o600
	// knockTime is how long a process that has the socket may take to accept a
	// connection. The kernel does it as long as the process lives.
	knockTime = time.Second
)

// Listen opens the unix socket at path, for the owner alone. It makes the
// directory if there is none, and removes a socket that a process left behind;
// one on which a process answers is an error. The socket is removed when the
// listener is closed. Two processes that open the same path at the same moment
// are for the caller to prevent.
func Listen(path string) (net.Listener, error) {
	if len(path) > parse.MaxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, and %d is the most that a socket can have: choose a shorter one", path, len(path), parse.MaxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("directory of the socket %s cannot be made: %w: choose another path, or make it, with the rights to write in it", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	private := func(_, _ string, c syscall.RawConn) (err error) {
		// The socket's file gets the mode that the socket has when it is bound.
		if controlled := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) }); controlled != nil {
			return controlled
		}
		return err
	}
	l, err := (&net.ListenConfig{Control: private}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s cannot be opened: %w: choose a path where this process may make files", path, err)
	}
	// A umask may have taken away what the owner needs.
	if err := os.Chmod(path, socketMode); err != nil {
		_ = l.Close() // the error that counts is err
		return nil, fmt.Errorf("socket %s cannot be kept from others: %w", path, err)
	}
	return l, nil
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s cannot be opened: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is no socket: choose another path, or remove it", path)
	}
	c, err := (&net.Dialer{Timeout: knockTime}).DialContext(context.Background(), "unix", path)
	switch {
	case err == nil:
		_ = c.Close() // it was opened to see that it can be
		return fmt.Errorf("another process answers on the socket %s: stop it first, or choose another path", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("socket %s was left behind and cannot be removed: %w", path, err)
		}
		return nil
	}
	return fmt.Errorf("socket %s may be in use, and cannot be asked: %w", path, err)
}
