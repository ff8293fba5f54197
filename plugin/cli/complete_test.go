package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// What the tab key offers, everywhere; :4 below it means no files, :0 files
// and :16 directories.
func TestCompletion(t *testing.T) {
	cfg := Config{
		Getenv: env("RINGLET_SOCKET", serve(t, alone())),
		Serve:  func(context.Context, ServeOptions) error { return nil },
	}
	var all strings.Builder
	for _, line := range []string{
		"", "p", "pool ", "ip ", "status ", "status -o ", "--socket ", "check ", "peers ", "drain ", "drain --", "leave --", "evict ", "evict host-b ", "forget ", "forget --", "recover ", "recover --", "rejoin --", "trust --", "keygen ", "version ", "completion ", "completion bash ", "help ", "help pool ", "help status ",
		"pool create ", "pool create --name ", "pool ls ", "pool show ", "pool show l", "pool show fd", "pool show lab ", "pool rm ",
		"ip ls ", "ip ls --pool ", "ring --pool 10.5", "who ", "who fd", "who 10.50.0.2 ", "release ",
		"lookup --for ", "lookup --pool ", "alloc --pool ", "alloc --for ", "alloc --ip ", "free --for ", "free ", "free --for printer-3 ", "free --for nobody ",
		"serve ", "serve --data ", "serve --socket ", "serve --docker-socket ", "serve --driver-name ",
		"events --kind ", "events --kind peer-", "events --kind granted,problem-",
	} {
		args := append([]string{"__complete"}, strings.Fields(line)...)
		if line == "" || strings.HasSuffix(line, " ") {
			args = append(args, "")
		}
		got := ringlet(t, cfg, args...)
		if got.code != 0 {
			t.Errorf("%q: code %d, said %s", line, got.code, got.err)
		}
		if strings.ContainsAny(got.out, "\x1b\r") {
			t.Errorf("%q: control characters: %q", line, got.out)
		}
		fmt.Fprintf(&all, "$ ringlet %s<tab>\n%s", line, got.out)
	}
	golden.Check(t, "completion.txt", []byte(all.String()))
}

// Where the plugin does not answer nothing is offered, said or waited for.
func TestCompletionWithoutThePlugin(t *testing.T) {
	deaf := filepath.Join(t.TempDir(), "deaf.sock")
	l, err := net.Listen("unix", deaf) // takes connections and answers none
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	noEngine := func(context.Context, string) ([]dockerd.Plugin, error) { return nil, errors.New("no engine") }
	slow := func(ctx context.Context, _ string) ([]dockerd.Plugin, error) { <-ctx.Done(); return nil, ctx.Err() }
	failing := alone()
	failing.err = errors.New("disk")
	for name, cfg := range map[string]Config{
		"no engine":   {FindPlugin: noEngine},
		"slow engine": {FindPlugin: slow},
		"no socket":   {Getenv: env("RINGLET_SOCKET", "/nowhere")},
		"no answer":   {Getenv: env("RINGLET_SOCKET", deaf)},
		"error":       {Getenv: env("RINGLET_SOCKET", serve(t, failing))},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			got := ringlet(t, cfg, "__complete", "pool", "show", "")
			if took := time.Since(begun); took > requestTimeout/2 {
				t.Errorf("took %v", took)
			}
			if got.code != 0 || !strings.HasPrefix(got.out, ":4\n") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
