package dockerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/docker/docker/client"
)

// call asks the engine one thing, with its own deadline. What is the path, for
// the error.
func call[T any](ctx context.Context, timeout time.Duration, what string, ask func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := ask(bounded)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return answer, unanswered{what: what, after: timeout}
	default:
		return answer, fmt.Errorf("the docker engine failed to answer %s: %w", what, err)
	}
}

// unanswered is returned when the engine took a call and let the deadline
// pass.
type unanswered struct {
	what  string
	after time.Duration
}

func (e unanswered) Error() string {
	return fmt.Sprintf("the docker engine did not answer %s within %v: it is starting or overloaded, it will be asked again", e.what, e.after)
}

// gone reports whether err says something about the engine and not only about
// the one thing it was asked for, so that asking it more is no use.
func gone(err error) bool {
	_, silent := errors.AsType[unanswered](err)
	return silent || client.IsErrConnectionFailed(err) || errors.Is(err, context.Canceled)
}

// errStranger is returned when the engine is not the one that this plugin runs
// in.
var errStranger = errors.New("is it the socket of another engine")

// blinds reports whether err, of an attempt to connect, says that no look will
// come for now and that none need be waited for; see [Watcher.WhenBlind]. A ping
// needs nothing of an engine that serves its API, however busy that is.
func blinds(err error) bool {
	silent, ok := errors.AsType[unanswered](err)
	return ok && silent.what == pingPath || errors.Is(err, errStranger)
}

// explained is an error whose text says what another one means.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// explainDial says what a failed connection means to the one who set up the
// plugin.
func explainDial(socket string, err error) error {
	var text string
	info, _ := os.Stat(socket) // nil: it tells nothing more
	switch {
	case info != nil && info.IsDir():
		text = "%s is a directory, and no docker socket: write the path of the socket in it; if there is none in it, the engine made the directory as it was to mount a socket that was not there"
	case info != nil && info.Mode().Type() != fs.ModeSocket:
		text = "%s is a file, and no docker socket: write the path of the engine's socket, such as /run/docker.sock"
	case errors.Is(err, syscall.ENOENT):
		text = "there is no docker socket %s: the engine is stopped, or the socket's directory is not mounted"
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "nothing listens on the docker socket %s: the engine is stopped, or the socket itself is mounted instead of its directory"
	case errors.Is(err, syscall.EACCES):
		text = "the docker socket %s may not be opened: run as root or in the socket's group"
	default:
		return fmt.Errorf("no connection to the docker socket %s: %w", socket, err)
	}
	return &explained{fmt.Sprintf(text, socket), err}
}
