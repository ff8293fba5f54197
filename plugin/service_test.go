package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/internal/together"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/logging"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/serving"
	"github.com/ringlet/ringlet/plugin/status"
)

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
	var log plugintest.Log
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, opts, cfg, log.Logger(), &logging.Sink{}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the process ended with %v", err)
		}
	}()

	local, engine := plugintest.Client(opts.AdminSocket), plugintest.Client(opts.Socket)
	defer local.CloseIdleConnections()
	defer engine.CloseIdleConnections()
	var p ipam.Problem
	plugintest.Eventually(t, "status shows the problem", func() (ok bool) {
		var st ipam.Status
		if !answers(t, local, "http://ringlet/v1/status", &st) {
			return false
		}
		p, ok = plugintest.Find(st.Problems, "http-unavailable")
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
	plugintest.Eventually(t, "the free port is served", func() bool { return answers(t, http.DefaultClient, "http://"+address+"/livez", nil) })
	http.DefaultClient.CloseIdleConnections()
	var st ipam.Status
	if ok := answers(t, local, "http://ringlet/v1/status", &st); !ok {
		t.Fatal("no status")
	}
	if p, ok := plugintest.Find(st.Problems, "http-unavailable"); ok {
		t.Errorf("the port is served, and status says %q", p.Text)
	}
	for _, message := range []string{"problem began", "problem ended"} {
		if n := log.Count(message, "http-unavailable"); n != 1 {
			t.Errorf("%d lines say %q, want 1", n, message)
		}
	}
}

// An admin socket that is lost is opened again.
func TestAdminSocketThatIsLost(t *testing.T) {
	store, n := plugintest.Open(t, t.TempDir())
	defer store.Close()
	var log plugintest.Log
	api, err := admin.New(admin.Config{Backend: status.New(status.Config{Node: n}), Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	first, err := driver.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := serving.NewAdmin(first, path, api.Serve, log.Logger())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c := plugintest.Client(path)
	defer c.CloseIdleConnections()
	alive := func() bool { return answers(t, c, "http://ringlet/livez", nil) }
	plugintest.Eventually(t, "the socket is served", alive)

	_ = first.Close()
	plugintest.Eventually(t, "the problem is noticed", func() bool { return log.Count("problem began", "admin-unavailable") == 1 })
	c.CloseIdleConnections()
	plugintest.Eventually(t, "another socket is served", alive)
	if p, wrong := s.Part().Fault.Problem(); wrong {
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
	store, n := plugintest.Open(t, t.TempDir())
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
		ended <- together.Run(t.Context(), n.Run, func(ctx context.Context) error { return drv.Serve(ctx, l) })
	}()
	c := plugintest.Client(path)
	defer c.CloseIdleConnections()
	plugintest.Eventually(t, "the engine is answered", func() bool {
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
