package cli

import (
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An argument that is no UTF-8 would reach the plugin as another one.
func TestArgumentThatIsNoUTF8(t *testing.T) {
	f := alone()
	socket := serve(t, f)
	for _, args := range [][]string{{"alloc", "--pool", "lab", "--for", "K\xfcche"}, {"lookup", "--for", "K\xfcche"}, {"K\xfcche"}} {
		got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", socket)}, args...)
		if got.code != exitUsage || !strings.Contains(got.err, `"K\xfcche" is not UTF-8`) || len(f.calls) > 0 {
			t.Errorf("%q: code %d, calls %q, said %s", args, got.code, f.calls, got.err)
		}
	}
}

// Dots lead to no other path, such as that of all pools: they are asked for as
// the name that they are not.
func TestDotsAreNoPool(t *testing.T) {
	f := alone()
	socket := serve(t, f)
	for args, call := range map[string]string{"ip ls --pool ..": `addresses ".."`, "lookup --pool . --for printer-3": `lookup "." printer-3`} {
		f.calls = nil
		ringlet(t, Config{Getenv: env("RINGLET_SOCKET", socket)}, strings.Fields(args)...)
		if len(f.calls) == 0 || slices.ContainsFunc(f.calls, func(c string) bool { return c != call }) {
			t.Errorf("%s: calls %q, want %s", args, f.calls, call)
		}
	}
}

// Whoever follows is told when the plugin ends: a script would take silence for
// nothing that happens.
func TestFollowSaysThatThePluginEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("retry: 2000\n\n")) // and the plugin stops
	})}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	for args, code := range map[string]int{"events --follow": exitFailed, "kv watch ringlet/": exitFailed, "events": exitFine} {
		got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", path)}, strings.Fields(args)...)
		if got.code != code || strings.Contains(got.err, "the plugin has ended") != (code == exitFailed) {
			t.Errorf("%s: code %d, said %q", args, got.code, got.err)
		}
	}
}
