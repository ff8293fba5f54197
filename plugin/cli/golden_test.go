package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
)

// What people see, at three widths and in a pipe.
func TestOutput(t *testing.T) {
	commands := map[string][]string{
		"status":      {"status"},
		"status-all":  {"status", "--all"},
		"peers":       {"peers"},
		"pool-ls":     {"pool", "ls"},
		"pool-show":   {"pool", "show", "10.60.0.0/26"},
		"ip-ls":       {"ip", "ls"},
		"ip-ls-freed": {"ip", "ls", "--freed"},
		"who-freed":   {"who", "10.50.0.5"},
		"ring":        {"ring"},
		"ring-table":  {"ring", "--table"},
		"explain-2":   {"explain", "10.50.0.2"},
		"explain-5":   {"explain", "10.50.0.5"},
		"explain-7":   {"explain", "10.50.0.7"},
		"explain-200": {"explain", "10.50.0.200"},
		"exclude-ls":  {"exclude", "ls"},
		"reserve-ls":  {"reserve", "ls"},
		"reserve-all": {"reserve", "ls", "--all"},
	}
	for peer, f := range map[string]*fixture{"alone": alone(), "troubled": troubled(), "empty": {st: ipam.Status{Verdict: ipam.Fine}}} {
		socket := serve(t, f)
		for name, args := range commands {
			only := map[string]string{"pool-show": "troubled", "status-all": "alone", "ip-ls-freed": "alone", "who-freed": "alone", "ring-table": "alone", "explain-2": "alone", "explain-5": "alone", "explain-7": "alone", "explain-200": "alone", "exclude-ls": "alone", "reserve-ls": "alone", "reserve-all": "alone"}[name]
			if only != "" && only != peer {
				continue
			}
			atWidths(t, name+"-"+peer, Config{}, append(args, "--socket", socket)...)
		}
	}
}

// More than five pools are a line each.
func TestManyPoolsOutput(t *testing.T) {
	f := troubled()
	for i := range 6 {
		p := f.st.Pools[0]
		p.Pool, p.Name, p.NetworkNames = prefix(fmt.Sprintf("10.6%d.0.0/24", i)), fmt.Sprintf("pool-%d", i), []string{"lab", "a\u202eb"}[:i%3]
		f.st.Pools = append(f.st.Pools, p)
	}
	atWidths(t, "status-many", Config{}, "status", "--socket", serve(t, f))
}

// Where hosts have named zones, these are shown.
func TestZonesOutput(t *testing.T) {
	f := troubled()
	for i, zone := range []string{"rack-1", "rack-2", "", "rack-2", "a room\u202e"} {
		f.st.Peers[i].Zone = zone
	}
	f.st.Self = f.st.Peers[0]
	e := stories(prefix("10.50.0.0/24"), "web")[3]
	e.Zone = "rack-2"
	f.stories = []ipam.Explanation{e}
	socket := serve(t, f)
	for name, args := range map[string][]string{
		"peers": {"peers"}, "ring-table": {"ring", "--table", "--pool", "10.60.0.0/26"}, "explain": {"explain", "10.50.0.200"},
	} {
		atWidths(t, name+"-zoned", Config{}, append(args, "--socket", socket)...)
	}
}

// atWidths holds what a command prints at three widths and in a pipe against a
// file for each.
func atWidths(t *testing.T, name string, cfg Config, args ...string) {
	t.Helper()
	for _, columns := range []int{0, 40, 80, 200} {
		file := fmt.Sprintf("%s-%d.txt", name, columns)
		if columns == 0 {
			file = name + "-pipe.txt"
		}
		t.Run(file, func(t *testing.T) {
			cfg.columns = columns
			got := ringlet(t, cfg, args...)
			if got.err != "" {
				t.Fatalf("said %s", got.err)
			}
			golden.Check(t, file, []byte(got.out))
			for line := range strings.Lines(got.out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns >= 80 && n > columns {
					t.Errorf("a line has %d columns: %s", n, line)
				}
				if strings.ContainsAny(line, "\x1b\r\t") {
					t.Errorf("a line has control characters: %q", line)
				}
			}
		})
	}
}

func TestJSONOutput(t *testing.T) {
	socket := serve(t, alone())
	for name, args := range map[string][]string{
		"status":      {"status"},
		"peers":       {"peers"},
		"drain-undo":  {"drain", "--undo"},
		"drain":       {"drain", "--no-wait"},
		"leave":       {"leave", "--no-wait"},
		"join":        {"join", "host-b"},
		"evict":       {"evict", "host-b"},
		"forget":      {"forget", "host-b", "--dry-run"},
		"recover":     {"recover", "--i-know-the-others-are-gone"},
		"rejoin":      {"rejoin", "--set-database-aside", "--no-wait"},
		"trust":       {"trust", "--i-know-no-other-copy-runs"},
		"pool-ls":     {"pool", "ls"},
		"pool-show":   {"pool", "show", "lab"},
		"pool-create": {"pool", "create", "10.70.0.0/24", "--name", "x"},
		"pool-rm":     {"pool", "rm", "lab"},
		"ip-ls":       {"ip", "ls"},
		"ip-ls-freed": {"ip", "ls", "--freed"},
		"ring":        {"ring", "--pool", "lab"},
		"ring-table":  {"ring", "--table", "--pool", "10.51.0.0/24"},
		"who":         {"who", "10.50.0.3"},
		"who-name":    {"who", "printer-3"},
		"who-both":    {"who", "web"},
		"who-freed":   {"who", "10.50.0.6"},
		"lookup":      {"lookup", "--for", "web"},
		"alloc":       {"alloc", "--pool", "lab", "--for", "x"},
		"free":        {"free", "--for", "printer-3"},
		"check":       {"check"},
		"explain":     {"explain", "10.50.0.2"},
		"exclude-ls":  {"exclude", "ls"},
		"exclude-rm":  {"exclude", "rm", "10.50.0.10-10.50.0.19"},
		"reserve-add": {"reserve", "add", "10.50.0.20", "--for", "db"},
		"reserve-ls":  {"reserve", "ls"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ringlet(t, Config{}, append(args, "-o", "json", "--socket", socket)...)
			if got.err != "" || got.code != 0 {
				t.Fatalf("code %d, said %s", got.code, got.err)
			}
			golden.Check(t, name+".json", []byte(got.out))
		})
	}
}

func TestHelp(t *testing.T) {
	cfg := Config{Serve: func(context.Context, ServeOptions) error { return nil }}
	var all strings.Builder
	for _, args := range [][]string{
		{"--help"},
		{"status", "-h"},
		{"help", "pool"},
		{"pool", "create", "-h"},
		{"pool", "show", "-h"},
		{"ip", "ls", "-h"},
		{"alloc", "-h"},
		{"free", "-h"},
		{"serve", "-h"},
		{"ring", "-h"},
		{"events", "-h"},
		{"kv", "-h"},
		{"kv", "get", "-h"},
		{"kv", "watch", "-h"},
		{"who", "-h"},
		{"peers", "-h"},
		{"drain", "-h"},
		{"leave", "-h"},
		{"join", "-h"},
		{"evict", "-h"},
		{"forget", "-h"},
		{"rejoin", "-h"},
		{"trust", "-h"},
		{"recover", "-h"},
		{"keygen", "-h"},
		{"explain", "-h"},
		{"check", "-h"},
		{"doctor", "-h"},
		{"bundle", "-h"},
		{"keys", "rotate", "-h"},
		{"snapshot", "-h"},
		{"snapshot", "restore", "-h"},
		{"gc", "-h"},
		{"exclude", "-h"},
		{"exclude", "add", "-h"},
		{"exclude", "rm", "-h"},
		{"reserve", "-h"},
		{"reserve", "add", "-h"},
	} {
		got := ringlet(t, cfg, args...)
		if got.code != 0 || got.err != "" {
			t.Errorf("%q: code %d, said %s", args, got.code, got.err)
		}
		fmt.Fprintf(&all, "$ ringlet %s\n\n%s\n", strings.Join(args, " "), got.out)
	}
	golden.Check(t, "help.txt", []byte(all.String()))
}

// The help that the docker command shows calls the program as docker does.
func TestDockerHelp(t *testing.T) {
	var all strings.Builder
	for _, args := range [][]string{{"--help"}, {"pool", "-h"}, {"pool", "create", "-h"}, {"ip", "ls", "-h"}, {"completion", "-h"}} {
		got := program(t, Config{}, append([]string{asDocker, "ringlet"}, args...))
		if got.code != 0 || got.err != "" {
			t.Errorf("%q: code %d, said %s", args, got.code, got.err)
		}
		fmt.Fprintf(&all, "$ docker ringlet %s\n\n%s\n", strings.Join(args, " "), got.out)
	}
	golden.Check(t, "docker-help.txt", []byte(all.String()))
}

// Every command has an example, and every example is a command that exists.
func TestExamples(t *testing.T) {
	root := New(Config{Serve: func(context.Context, ServeOptions) error { return nil }})
	n, seen := 0, map[string]*cobra.Command{}
	for _, group := range append(root.Commands(), root) {
		for _, c := range append(group.Commands(), group) {
			if other := seen[c.CommandPath()]; other != nil && other != c {
				t.Errorf("%s is there twice", c.CommandPath())
			}
			seen[c.CommandPath()] = c
			if c.Example == "" && !c.HasSubCommands() {
				t.Errorf("%s has no example", c.CommandPath())
			}
			for line := range strings.Lines(c.Example) {
				words := strings.Fields(line)
				if len(words) < 2 || words[0] != "ringlet" {
					continue
				}
				found, _, err := root.Find(words[1:])
				if err != nil || found == root {
					t.Errorf("%s: the example %q is no command", c.CommandPath(), line)
				}
				n++
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d examples were looked at", n)
	}
}
