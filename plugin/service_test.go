package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/logging"
)

// lines is a log that tests read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// count returns how many lines have all the parts.
func (l *lines) count(parts ...string) int {
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

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// eventually looks again until ok, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// answers reports whether a GET is answered with 200, and decodes what it got.
func answers(t *testing.T, c *http.Client, url string, into any) bool {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode == http.StatusOK
}

// find returns the problem with that code.
func find(st ipam.Status, code string) (ipam.Problem, bool) {
	i := slices.IndexFunc(st.Problems, func(p ipam.Problem) bool { return p.Code == code })
	if i < 0 {
		return ipam.Problem{}, false
	}
	return st.Problems[i], true
}

// A port that another process has keeps nothing else from working, and is
// served as soon as it is free.
func TestHTTPOnABusyPort(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := busy.Addr().String()
	cfg, err := config.Load([]string{"RINGLET_HTTP=" + address}, func() (string, error) { return "host-a", nil })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	opts := cli.ServeOptions{Data: dir, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: filepath.Join(dir, "admin.sock"), DriverNames: []string{"ringlet"}}
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, opts, cfg, log.logger(), &logging.Sink{}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the process ended with %v", err)
		}
	}()

	local, engine := client(opts.AdminSocket), client(opts.Socket)
	defer local.CloseIdleConnections()
	defer engine.CloseIdleConnections()
	var p ipam.Problem
	eventually(t, "status shows the problem", func() (ok bool) {
		var st ipam.Status
		if !answers(t, local, "http://ringlet/v1/status", &st) {
			return false
		}
		p, ok = find(st, "http-unavailable")
		return ok && st.Verdict == ipam.Degraded
	})
	for _, want := range []string{address, "RINGLET_HTTP", "address already in use"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("the problem %q lacks %q", p.Text, want)
		}
	}
	resp, err := engine.Post("http://plugin/IpamDriver.GetCapabilities", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the engine got %v, %v", resp, err)
	}
	_ = resp.Body.Close()

	_ = busy.Close()
	eventually(t, "the free port is served", func() bool { return answers(t, http.DefaultClient, "http://"+address+"/livez", nil) })
	http.DefaultClient.CloseIdleConnections()
	var st ipam.Status
	if ok := answers(t, local, "http://ringlet/v1/status", &st); !ok {
		t.Fatal("no status")
	}
	if p, ok := find(st, "http-unavailable"); ok {
		t.Errorf("the port is served, and status says %q", p.Text)
	}
	for _, message := range []string{"problem began", "problem ended"} {
		if n := log.count(message, "http-unavailable"); n != 1 {
			t.Errorf("%d lines say %q, want 1", n, message)
		}
	}
}

// An admin socket that is lost is opened again.
func TestAdminSocketThatIsLost(t *testing.T) {
	store, n := open(t, t.TempDir())
	defer store.Close()
	var log lines
	api, err := admin.New(admin.Config{Backend: &status{Node: n}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	first, err := driver.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newAdmin(first, path, api.Serve, log.logger())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	c := client(path)
	defer c.CloseIdleConnections()
	alive := func() bool { return answers(t, c, "http://ringlet/livez", nil) }
	eventually(t, "the socket is served", alive)

	_ = first.Close()
	eventually(t, "the problem is noticed", func() bool { return log.count("problem began", "admin-unavailable") == 1 })
	c.CloseIdleConnections()
	eventually(t, "another socket is served", alive)
	if p, wrong := s.fault.problem(); wrong {
		t.Errorf("the socket is served, and the problem is %q", p.Text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The engine's socket is another matter: only a new process, which the engine
// starts, brings one that the engine can connect to.
func TestEngineSocketThatIsLost(t *testing.T) {
	store, n := open(t, t.TempDir())
	defer store.Close()
	drv, err := driver.New(driver.Config{Backend: noEngine{n}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ringlet.sock")
	l, err := driver.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- together(t.Context(), []func(context.Context) error{n.Run, func(ctx context.Context) error { return drv.Serve(ctx, l) }})
	}()
	c := client(path)
	defer c.CloseIdleConnections()
	eventually(t, "the engine is answered", func() bool {
		resp, err := c.Post("http://plugin/IpamDriver.GetCapabilities", "", nil)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	_ = l.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the process ended with %v", err)
	}
}

// The problem names who is in the way.
func TestAdminSocketOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	other, err := driver.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var log lines
	s := newAdmin(nil, path, nil, log.logger())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	eventually(t, "the problem is noticed", func() bool { _, wrong := s.fault.problem(); return wrong })
	if p, _ := s.fault.problem(); !strings.Contains(p.Text, path) || !strings.Contains(p.Text, "another process answers") {
		t.Errorf("the problem is %q", p.Text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A fault is news when it comes, changes and goes, and not in between.
func TestFaultIsLoggedOncePerChange(t *testing.T) {
	var log lines
	f := &fault{logger: log.logger(), code: "broken", text: func(err error) string { return "broken: " + err.Error() }, next: "mend it"}
	one, two := fmt.Errorf("one"), fmt.Errorf("two")
	for _, err := range []error{nil, one, one, two, two, nil, nil, one, nil} {
		f.set(err)
		p, wrong := f.problem()
		if wrong != (err != nil) || wrong && (p.Text != "broken: "+err.Error() || p.Code != "broken" || p.Next != "mend it" || p.Level != string(ipam.Degraded)) {
			t.Errorf("after %v the problem is %+v", err, p)
		}
	}
	if began, ended := log.count("problem began"), log.count("problem ended"); began != 3 || ended != 2 {
		t.Errorf("%d lines say that it began and %d that it ended, want 3 and 2", began, ended)
	}
}
