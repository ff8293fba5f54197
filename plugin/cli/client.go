package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/plugin/admin"
)

// requestTimeout is longer than the API's own deadline, whose error says more.
const requestTimeout = admin.DefaultTimeout + 10*time.Second

// client talks to the API on a unix socket.
type client struct {
	socket string
	named  bool // by whoever runs the command: it is no engine's, as far as is known
	http   *http.Client

	progress io.Writer // where a change that takes long says what it waits for; nil: nowhere
}

func newClient(t target) *client {
	return &client{socket: t.socket, named: t.plugin.ID == "", http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", t.socket)
		},
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// path joins the segments of a path, escaping each, below /v1.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		if s == "." || s == ".." { // which would lead to another path
			s = strings.ReplaceAll(s, ".", "%2E")
		} else {
			s = url.PathEscape(s)
		}
		b.WriteString("/" + s)
	}
	return b.String()
}

// query appends the parameters that are not empty, given as name and value in
// turn.
func query(path string, params ...string) string {
	q := url.Values{}
	for i := 0; i < len(params); i += 2 {
		if params[i+1] != "" {
			q.Set(params[i], params[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// get reads what is at the path into answer.
func (c *client) get(ctx context.Context, path string, answer any) error {
	return c.call(ctx, http.MethodGet, path, nil, answer)
}

// call sends a request, with body as JSON unless it is nil, and reads the
// answer unless that is nil. What the API refuses is an *[admin.Problem].
func (c *client) call(ctx context.Context, method, path string, body, answer any) error {
	text, err := c.send(ctx, method, path, body)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return c.stranger(err.Error())
	}
	return nil
}

// text returns what answers a request, whatever it is.
func (c *client) text(ctx context.Context, method, path string) ([]byte, error) {
	return c.send(ctx, method, path, nil)
}

func (c *client) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("the request cannot be written: %w", err)
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://ringlet"+path, content)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be written: %w", err)
	}
	do := c.http.Do
	if method != http.MethodGet && c.progress != nil && !strings.HasPrefix(path, "/v1/self/") { // those tell of their own progress
		do = func(r *http.Request) (*http.Response, error) { return c.changes(ctx, r) }
	}
	resp, err := do(r)
	if err != nil {
		return nil, c.failure(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.failure(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		p := &admin.Problem{}
		if json.Unmarshal(text, p) != nil || p.Code == "" {
			return nil, c.stranger(resp.Status)
		}
		return nil, p
	}
	return text, nil
}

// failure says why there is no answer, and what to do.
func (c *client) failure(err error) error {
	var text string
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.named:
		text = "there is no socket there: see whether that is its --admin-socket, and whether ringlet serve runs (systemctl status ringlet)"
	case errors.Is(err, fs.ErrNotExist):
		text = "there is no socket there: see whether the plugin is enabled (docker plugin ls), and whether its engine is on this host"
	case errors.Is(err, fs.ErrPermission):
		text = "only root may use it: try again with sudo"
	case len(c.socket) > parse.MaxSocketPath:
		text = fmt.Sprintf("the path of a socket has at most %d bytes, and this one has %d: let ringlet serve have a shorter --admin-socket, or name a shorter link to it", parse.MaxSocketPath, len(c.socket))
	case errors.Is(err, syscall.ECONNREFUSED) && noSocket(c.socket):
		text = "that is not a socket: name the one that ringlet serve has as its --admin-socket"
	case errors.Is(err, syscall.ECONNREFUSED) && c.named:
		text = "nothing answers there: the process has ended, see its log for the reason (journalctl -u ringlet, or the engine's if it is a plugin)"
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "nothing answers there: the plugin has ended, see the engine's log for the reason"
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("no answer within %v: see its log for what it is doing (journalctl -u ringlet, or the engine's if it is a plugin)", requestTimeout)
	case errors.Is(err, context.Canceled):
		return err
	default:
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which is our own invention
		}
		text = fmt.Sprintf("%v: try again", err)
	}
	return &noAnswerError{text: fmt.Sprintf("the plugin cannot be reached at %s: %s", c.socket, text), cause: err}
}

// noSocket reports whether a path is that of something else.
func noSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() != fs.ModeSocket
}

func (c *client) stranger(what string) error {
	return fmt.Errorf("what answers at %s is not ringlet's admin socket (%s): see --socket and RINGLET_SOCKET", c.socket, what)
}

// noAnswerError is an error of the way to the plugin, in words.
type noAnswerError struct {
	text  string
	cause error
}

// Error returns the sentence.
func (e *noAnswerError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *noAnswerError) Unwrap() error { return e.cause }
