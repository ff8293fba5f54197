// Package plugintest has what the tests of several parts of the plugin need: a node on a real database, a log that is read while it is
// written, and patience.
//
// It refuses to know any of the parts, and is not in the binary.
package plugintest

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
)

// A Log is what was logged. The zero value is ready, and safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// Count returns how many lines have all the parts.
func (l *Log) Count(parts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.buf.String()) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			n++
		}
	}
	return n
}

// Logger returns what writes the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Eventually looks again until ok, or fails the test after a minute.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Find returns the problem with that code.
func Find(problems []ipam.Problem, code string) (ipam.Problem, bool) {
	i := slices.IndexFunc(problems, func(p ipam.Problem) bool { return p.Code == code })
	if i < 0 {
		return ipam.Problem{}, false
	}
	return problems[i], true
}

// Database is the name of the file that [Open] opens.
const Database = "ringlet.db"

// Config is how to open the database at path.
func Config(path string) persist.Config {
	return persist.Config{Path: path, Schema: ipam.SchemaVersion, Logger: slog.New(slog.DiscardHandler)}
}

// Open opens the database in dir and restores the machine, as a start does.
func Open(tb testing.TB, dir string) (*persist.Store, *node.Node) {
	tb.Helper()
	logger := slog.New(slog.DiscardHandler)
	machine := ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}
	preview := node.NewPreview(machine)
	store, err := persist.Open(persist.Config{
		Path: filepath.Join(dir, Database), Schema: ipam.SchemaVersion,
		Preview: preview, Logger: logger,
	})
	if err != nil {
		tb.Fatal(err)
	}
	n, err := node.New(node.Config{Machine: machine, Store: store, Preview: preview, Logger: logger})
	if err != nil {
		tb.Fatal(err)
	}
	return store, n
}

// Client returns a client of the server that listens on a unix socket.
func Client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
}

// Interfaces are those of a host, which can be broken. The zero value has none.
type Interfaces struct {
	address atomic.Pointer[netip.Prefix]
	err     atomic.Pointer[error]
	reads   atomic.Int64
}

// Read returns the addresses.
func (i *Interfaces) Read() ([]netip.Prefix, error) {
	i.reads.Add(1)
	if err := i.err.Load(); err != nil {
		return nil, *err
	}
	var out []netip.Prefix
	if p := i.address.Load(); p != nil {
		out = append(out, *p)
	}
	return out, nil
}

// Set gives the host one address, none for an empty text, or has it broken by err.
func (i *Interfaces) Set(address string, err error) {
	i.address.Store(nil)
	if address != "" {
		i.address.Store(new(netip.MustParsePrefix(address)))
	}
	i.err.Store(nil)
	if err != nil {
		i.err.Store(&err)
	}
}

// Reads returns how often they were read.
func (i *Interfaces) Reads() int64 { return i.reads.Load() }
