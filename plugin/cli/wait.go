package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// waitsAfter is after how long a command that changes something says what it waits for.
const waitsAfter = time.Second

// uncertainError says that a user interrupted a change that the plugin goes on with.
type uncertainError struct{ cause error }

// Error returns the sentence.
func (e *uncertainError) Error() string {
	return "interrupted: what you asked for may be done all the same, as soon as enough hosts agree; see ringlet status"
}

// Unwrap returns what ended the request.
func (e *uncertainError) Unwrap() error { return e.cause }

// changes sends a request that changes something. If the answer takes long, it tells the user why.
func (c *client) changes(ctx context.Context, r *http.Request) (*http.Response, error) {
	answered, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(waitsAfter):
			if ctx.Err() == nil {
				c.sayWait(ctx, answered)
			}
		case <-answered:
		case <-ctx.Done():
		}
	}()
	resp, err := c.http.Do(r)
	close(answered)
	<-done // nobody writes behind what the command says
	if errors.Is(err, context.Canceled) {
		err = &uncertainError{err}
	}
	return resp, err
}

// sayWait tells for whom a change waits, unless it is answered before.
func (c *client) sayWait(ctx context.Context, answered <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, waitsAfter)
	defer cancel()
	var st ipam.Status
	_ = c.get(ctx, path("status"), &st) // without it nobody is named
	select {
	case <-answered:
		return
	default:
	}
	text := fmt.Sprintf("waiting for the other hosts, %v at most", admin.DefaultTimeout)
	if silent := unreachable(st); len(silent) > 0 {
		text += ": " + strings.Join(silent, ", ") + " cannot be reached"
	}
	_, _ = io.WriteString(c.progress, text+"; Ctrl-C ends the wait, not the change\n")
}
