package cli

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/admin"
)

// The tables that TestOutput has not, as they need more than a backend, or one
// on which something is wrong.
func TestOutputOfTheRest(t *testing.T) {
	f := alone()
	f.findings = leaks(2)
	f.keys = admin.Keys{Source: "file", File: "/data/keys", Keys: []admin.Key{{Fingerprint: "0a1b2c3d", Encrypts: true}, {Fingerprint: "4e5f6071"}}}
	f.about.Engine.Version = "28.5.2"
	cfg := Config{
		clock: func() clockState { return clockState{known: true} },
		mtuOf: func(netip.Addr) (string, int) { return "wg0", 1200 },
	}
	socket := serveConfig(t, admin.Config{Backend: f, Process: f, Events: happened(), Journal: diary{}})
	snapshot := filepath.Join(t.TempDir(), "snap.json")
	if got := ringlet(t, Config{}, "snapshot", "save", snapshot, "--socket", socket); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	writeOutput(t, report, "check", "-o", "json", "--socket", socket)
	for name, args := range map[string][]string{
		"check":            {"check"},
		"doctor":           {"doctor"},
		"events":           {"events"},
		"gc":               {"gc", "--from", report, "--dry-run"},
		"keys-ls":          {"keys", "ls"},
		"keys-rotate":      {"keys", "rotate"},
		"lookup":           {"lookup", "--for", "web"},
		"pool-show":        {"pool", "show", "lab"},
		"snapshot-inspect": {"snapshot", "inspect", snapshot},
		"who-at":           {"who", "10.50.0.7", "--at", "2026-11-21T11:30:00+01:00"},
		"who-held":         {"who", "10.50.0.2"},
	} {
		atWidths(t, name+"-alone", cfg, append(args, "--socket", socket)...)
	}
	empty := alone()
	empty.reservations = nil
	socket = serve(t, empty)
	for name, args := range map[string][]string{
		"exclude-ls": {"exclude", "ls"},
		"reserve-ls": {"reserve", "ls"},
		"lookup":     {"lookup", "--for", "nobody"},
		"keys-ls":    {"keys", "ls"},
		"check":      {"check"},
	} {
		atWidths(t, name+"-nothing", Config{}, append(args, "--socket", socket)...)
	}
}

// writeOutput runs a command and keeps what it printed.
func writeOutput(t *testing.T, file string, args ...string) {
	t.Helper()
	got := ringlet(t, Config{}, args...)
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Help fits a terminal of 80 columns, since cobra does not wrap it. Examples are for copying, on one line each.
func TestHelpFitsATerminal(t *testing.T) {
	root := New(Config{Serve: func(context.Context, ServeOptions) error { return nil }})
	for _, group := range append(root.Commands(), root) {
		for _, c := range append(group.Commands(), group) {
			for line := range strings.Lines(strings.Replace(c.UsageString(), c.Example, "", 1) + c.Long) {
				if n := displayWidth(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
				}
			}
		}
	}
}
