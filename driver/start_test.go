package driver

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// newDriver makes a driver that logs to the test.
func newDriver(t testing.TB, cfg Config) *Driver {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// start serves a driver on a unix socket until the test ends.
func start(t testing.TB, cfg Config) (d *Driver, path string) {
	t.Helper()
	d = newDriver(t, cfg)
	path = socketPath(t)
	stop := serveOn(t, d, path)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	return d, path
}

// serveOn serves a driver on a socket. The returned function ends that, and
// returns what Serve returned.
func serveOn(t testing.TB, d *Driver, path string) (stop func() error) {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, l) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// socketPath returns a path short enough for a socket, whatever the test is
// called.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ringlet") //nolint:usetesting // t.TempDir has the test's name in its path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "plugins", "ringlet.sock")
}

// client returns an HTTP client as an engine has it, with connections of its
// own to the socket.
func client(t testing.TB, path string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// post sends one request.
func post(ctx context.Context, c *http.Client, method, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin.moby.localhost/"+method, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	w, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	return w.StatusCode, string(b), err
}

// mustPost sends one request that must be answered with status 200.
func mustPost(t testing.TB, c *http.Client, method, body string) string {
	t.Helper()
	status, answer, err := post(t.Context(), c, "IpamDriver."+method, body)
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	return answer
}

// lines is a log that tests can read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Requests that tests send again and again.
const (
	subnetBody    = `{"AddressSpace":"local","Pool":"10.1.0.0/16","SubPool":"","Options":{},"V6":false}`
	chosenBody    = `{"AddressSpace":"local","Pool":"","SubPool":"","Options":{},"V6":false}`
	containerBody = `{"PoolID":"ringlet1/local/10.1.0.0/16","Address":"","Options":{"com.docker.network.endpoint.macaddress":"02:42:ea:1d:54:f0"}}`
	claimBody     = `{"PoolID":"ringlet1/local/10.1.0.0/16","Address":"10.1.0.9","Options":{"com.docker.network.endpoint.macaddress":"02:42:ea:1d:54:f0"}}`
	stopBody      = `{"PoolID":"ringlet1/local/10.1.0.0/16","Address":"10.1.0.9"}`
	removeBody    = `{"PoolID":"ringlet1/local/10.1.0.0/16"}`
)
