package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// A finding is told also where the engine has not listed anything, as where there is none.
func TestCheckTellsFindingsWithoutAnEngine(t *testing.T) {
	f := alone()
	f.unlisted, f.findings = true, leaks(1)
	got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "check")
	if got.code != exitDegraded || !strings.Contains(got.out, "has not read its list") || !strings.Contains(got.out, f.findings[0].Code+": 10.50.0.2 in") {
		t.Errorf("%+v", got)
	}
}

// Where nothing is kept back at all, that is said, and not that nothing is of one kind.
func TestNothingIsKeptBack(t *testing.T) {
	socket := serve(t, &fixture{st: ipam.Status{Verdict: ipam.Fine}})
	for args, want := range map[string]string{
		"exclude ls": "nothing is excluded\n", "exclude ls --all": "nothing is reserved\n",
		"reserve ls": "nothing is reserved\n", "reserve ls --all": "nothing is reserved\n",
	} {
		if got := ringlet(t, Config{}, append(strings.Fields(args), "--socket", socket)...); got.out != want || got.code != 0 {
			t.Errorf("%s: %+v", args, got)
		}
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
