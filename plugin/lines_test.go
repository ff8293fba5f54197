package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// What net/http says of the engine's socket, as that no file is left to accept a connection with, comes as a line
// of our log, with a level.
func TestLinesOfLibraries(t *testing.T) {
	t.Setenv("LOG_LEVEL", "warn")
	t.Setenv("RINGLET_HTTP", "off")
	before := log.Writer()
	dir := t.TempDir()
	opts := cli.ServeOptions{Data: dir, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: filepath.Join(dir, "admin.sock"), DriverNames: []string{"ringlet"}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, opts) }()
	local := plugintest.Client(opts.AdminSocket)
	defer local.CloseIdleConnections()
	plugintest.Eventually(t, "it serves", func() bool { return answers(t, local, "http://ringlet/v1/status", nil) })

	log.Print("http: Accept error: too many open files")
	resp, err := local.Get("http://ringlet/v1/log")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	const want = `level=warn msg="library message" text="http: Accept error: too many open files"`
	if !strings.Contains(string(lines), want) {
		t.Errorf("the log has no line %s, but\n%s", want, lines)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if log.Writer() != before {
		t.Error("it has ended, and what libraries say still goes into its log")
	}
}
