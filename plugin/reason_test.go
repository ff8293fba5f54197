package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A process that ends by itself says why beside its database, and one that serves takes
// that back.
func TestReasonOfTheEnd(t *testing.T) {
	dir := t.TempDir()
	opts := cli.ServeOptions{Data: dir, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: filepath.Join(dir, "admin.sock"), DriverNames: []string{"ringlet"}}
	says := func(want string) {
		t.Helper()
		if words, err := lastwords.Read(dir); err != nil || !strings.Contains(words.Text, want) {
			t.Errorf("it said %q, %v, want %q", words.Text, err, want)
		}
	}

	t.Setenv("LOG_LEVEL", "error")
	t.Setenv("RINGLET_HTTP", "off")
	t.Setenv("RINGLET_REST", "soon")
	t.Setenv("RINGLET_DEAL", "most")
	if err := run(t.Context(), opts); !errors.Is(err, errSettings) {
		t.Fatalf("with wrong settings it ended with %v", err)
	}
	says("RINGLET_REST")
	says("RINGLET_DEAL")

	t.Setenv("RINGLET_REST", "")
	t.Setenv("RINGLET_DEAL", "")
	database := filepath.Join(dir, databaseName)
	if err := os.Mkdir(database, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), opts); err == nil {
		t.Fatal("a directory is no database")
	}
	says("is a directory")

	if err := os.Remove(database); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, opts) }()
	local := plugintest.Client(opts.AdminSocket)
	defer local.CloseIdleConnections()
	plugintest.Eventually(t, "it serves", func() bool { return answers(t, local, "http://ringlet/v1/status", nil) })
	if _, err := lastwords.Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it serves, and what an earlier one said stays: %v", err)
	}
	if err := run(t.Context(), opts); err == nil {
		t.Error("with its sockets another one serves, too")
	}
	if words, err := lastwords.Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it serves, and another one left as its last word %q, %v", words.Text, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := lastwords.Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it ended as it was told to, and said why: %v", err)
	}
}

// A process that is told to end while it starts has no reason of its own to tell, as one
// that served.
func TestToldToEndWhileItStarts(t *testing.T) {
	t.Setenv("LOG_LEVEL", "error")
	t.Setenv("RINGLET_HTTP", "off")
	dir := t.TempDir()
	opts := cli.ServeOptions{Data: dir, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: filepath.Join(dir, "admin.sock"), DriverNames: []string{"ringlet"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()       // while the settings are read
	for range 10 { // it notices at one point or another
		if err := lastwords.Write(dir, time.Now(), errors.New("the one before failed")); err != nil {
			t.Fatal(err)
		}
		if err := run(ctx, opts); err != nil {
			t.Fatalf("it failed: %v", err)
		}
	}
	if words, err := lastwords.Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it ended as it was told to, and said why: %q, %v", words.Text, err)
	}
}

// Who gives both sockets one path is not sent to look for another process.
func TestOnePathForBothSockets(t *testing.T) {
	t.Setenv("LOG_LEVEL", "error")
	dir := t.TempDir()
	opts := cli.ServeOptions{Data: dir, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: dir + "/./ringlet.sock", DriverNames: []string{"ringlet"}}
	if err := run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "--socket and --admin-socket are both") {
		t.Errorf("it ended with %v", err)
	}
}
