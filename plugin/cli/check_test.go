package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
)

func leaks(n int) []ipam.Finding {
	var out []ipam.Finding
	for i := range n {
		a := ip(fmt.Sprintf("10.50.0.%d", i+2))
		out = append(out, ipam.Finding{
			Code: ipam.FoundLeak, Address: a, Pool: prefix("10.50.0.0/24"), Name: "evil\x1b[2J", Since: now.Add(-time.Hour), Missing: new(now.Add(-time.Second)),
			Text: fmt.Sprintf("%v in 10.50.0.0/24 (lab) is held by container evil\x1b[2J on host-a since 2026-11-21 11:00 UTC, and the engine has no such endpoint", a),
			Next: "nothing: it is freed by itself when another list of the engine lacks it; ringlet gc asks for that list now",
		})
	}
	return out
}

// What a check finds is told, and tells by its exit code how bad it is.
func TestCheckAndCollect(t *testing.T) {
	var all strings.Builder
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	for _, tt := range []struct {
		name  string
		args  string
		f     func(*fixture)
		code  int
		calls string
	}{
		{"fine", "check", func(*fixture) {}, exitFine, "check"},
		{"leaks", "check", func(f *fixture) { f.findings = leaks(2) }, exitDegraded, "check"},
		{"broken", "check", func(f *fixture) { f.broken = []string{"I5: 10.50.0.9 is held\x1b"}; f.findings = leaks(1) }, exitFailed, "check"},
		{"dry run", "gc --dry-run --from " + report, func(f *fixture) { f.findings = leaks(3) }, exitDegraded, "collect 3 dryRun=true"},
		{"by a check of its own", "gc", func(f *fixture) { f.findings = leaks(1) }, exitFine, "collect 1 dryRun=false"},
		{"mended", "gc --from " + report, func(f *fixture) { f.findings = leaks(1) }, exitFine, "collect 1 dryRun=false"},
		{"nothing", "gc --from " + report, func(*fixture) {}, exitFine, "status"},
		{"many", "gc --from " + report, func(f *fixture) { f.findings = leaks(120) }, exitDegraded, "collect 20 dryRun=false"},
	} {
		f := alone()
		tt.f(f)
		cfg := Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, f))}
		got := ringlet(t, cfg, "check", "-o", "json")
		if err := os.WriteFile(report, []byte(got.out), 0o600); err != nil {
			t.Fatal(err)
		}
		got = ringlet(t, cfg, strings.Fields(tt.args)...)
		if got.code != tt.code || got.err != "" || f.calls[len(f.calls)-1] != tt.calls {
			t.Errorf("%s: code %d, said %s, asked for %q", tt.name, got.code, got.err, f.calls)
		}
		if tt.name != "many" {
			fmt.Fprintf(&all, "# %s\n\n%s\n", tt.name, got.out)
		}
	}
	golden.Check(t, "check-gc.txt", []byte(all.String()))
}

// What was found and could not be told is no answer.
func TestFindingsThatCouldNotBeWritten(t *testing.T) {
	f := alone()
	f.findings = leaks(2)
	got := ringlet(t, Config{Out: fullDisk{}, Getenv: env("RINGLET_SOCKET", serve(t, f))}, "check")
	if got.code != exitFailed || !strings.Contains(got.err, "could not be written") {
		t.Errorf("%+v", got)
	}
}

// What is no report, or that of another host, frees nothing.
func TestCollectRefused(t *testing.T) {
	other, err := json.Marshal(ipam.Audit{Peer: "host-b", PeerID: "77aa", Findings: leaks(1)})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"":            "it is not JSON, or was cut short",
		"{}":          "not a report",
		"[1]":         "it has other contents",
		string(other): "the report is from host-b",
	} {
		f := alone()
		got := ringlet(t, Config{In: strings.NewReader(in), Getenv: env("RINGLET_SOCKET", serve(t, f))}, "gc", "--from", "-")
		if got.code != exitFailed || !strings.Contains(got.err, want) || strings.Contains(strings.Join(f.calls, " "), "collect") {
			t.Errorf("%q: %+v, asked for %q", in, got, f.calls)
		}
	}
}

// A finding is told also where the engine has not listed anything, as where there is none.
func TestCheckTellsFindingsWithoutAnEngine(t *testing.T) {
	f := alone()
	f.unlisted, f.findings = true, leaks(1)
	got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "check")
	if got.code != exitDegraded || !strings.Contains(got.out, "has not read its list") || !strings.Contains(got.out, f.findings[0].Code+": 10.50.0.2 in") {
		t.Errorf("%+v", got)
	}
}
