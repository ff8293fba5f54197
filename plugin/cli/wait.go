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

const (
	// waitsAfter is after how long a command that changes something says what it waits for.
	waitsAfter = time.Second
	// lookWait is how long it asks for the names of those that it waits for.
	lookWait = 5 * time.Second
)

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
	waiting, answered := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(waitsAfter):
			c.sayWait(waiting)
		case <-waiting.Done():
		}
	}()
	resp, err := c.http.Do(r)
	answered()
	<-done // nobody writes behind what the command says
	if errors.Is(err, context.Canceled) {
		err = &uncertainError{err}
	}
	return resp, err
}

// sayWait tells for whom a change waits, unless ctx ends before, which it does with the answer.
func (c *client) sayWait(ctx context.Context) {
	look, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	var st ipam.Status
	_ = c.get(look, path("status"), &st) // without it nobody is named
	if ctx.Err() != nil {
		return
	}
	text := fmt.Sprintf("waiting for the other hosts, %v at most", admin.DefaultTimeout)
	if silent := unreachable(st); len(silent) > 0 {
		text += ": " + strings.Join(silent, ", ") + " cannot be reached"
	}
	_, _ = io.WriteString(c.progress, text+"; Ctrl-C ends the wait, not the change\n")
}
