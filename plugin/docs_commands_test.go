package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/console"
	"github.com/ringlet/ringlet/plugin/cli"
)

// Every block of commands is run by a test, or says why it is not.
func TestConsoleOfTheManual(t *testing.T) {
	steps, err := os.ReadFile("../internal/e2e/manual_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	run := 0
	for page, text := range manual(t) {
		if n := strings.Count(text, "```console\n"); n != len(console.Blocks(text)) {
			t.Errorf("%s has %d blocks of commands, and %d were read", page, n, len(console.Blocks(text)))
		}
		for _, b := range console.Blocks(text) {
			switch {
			case len(b.Lines) == 0:
				t.Errorf("%s: a block (%s) has no command behind a prompt", page, b.Name)
			case b.Kind == "run":
				run++
				if !strings.Contains(string(steps), `"`+b.Name+`"`) {
					t.Errorf("%s: internal/e2e/manual_test.go does not run %q", page, b.Name)
				}
			case b.Kind == "test" && !slices.Contains(tests, b.Name):
				t.Errorf("%s: there is no test %s", page, b.Name)
			case b.Kind == "":
				t.Errorf("%s: nothing runs %q: put <!-- run: …, test: … or example: … --> above the block", page, b.Lines[0].Command)
			}
		}
	}
	if run < 20 {
		t.Errorf("only %d blocks are run", run)
	}
}

// testNames returns the names of all tests of internal/e2e, of this package and of those under it.
func testNames(t *testing.T) []string {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	var out []string
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "../internal/e2e/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// Every command of ringlet that the manual shows exists, with its flags; in blocks also with its arguments.
func TestCommandsOfTheManual(t *testing.T) {
	inline := regexp.MustCompile("`(?:docker )?(ringlet [a-z][^`]*)`")
	n := 0
	for page, text := range manual(t) {
		for _, b := range console.Blocks(text) {
			for _, line := range b.Lines {
				for _, words := range ringletCalls(line.Command) {
					n++
					if why := refusal(words, true); why != "" {
						t.Errorf("%s: %s: %s", page, line.Command, why)
					}
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			for _, words := range ringletCalls(m[1]) {
				n++
				if why := refusal(words, false); why != "" {
					t.Errorf("%s: %s: %s", page, m[1], why)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d commands were looked at", n)
	}
}

// ringletCalls returns the words behind each call of ringlet in a command of a shell.
func ringletCalls(command string) [][]string {
	call := regexp.MustCompile(`(?:^|[;&|(] *|sudo |docker |[A-Z_]+=\S+ )ringlet ((?:"[^"]*"|'[^']*'|[^;&|<>)"'])*)`)
	word := regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s"']+`)
	var out [][]string
	for _, m := range call.FindAllStringSubmatch(command, -1) {
		out = append(out, word.FindAllString(m[1], -1))
	}
	return out
}

// refusal says why the command line does not take these words; empty if it does.
func refusal(words []string, complete bool) string {
	root := cli.New(cli.Config{})
	if len(words) == 0 || words[0] == "serve" || words[0] == "--help" {
		return "" // serve is the program's alone
	}
	found, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err.Error()
	case found == root:
		return "no such command"
	}
	found.InitDefaultHelpFlag()
	if err := found.ParseFlags(rest); err != nil && (complete || !strings.Contains(err.Error(), "needs an argument")) {
		return err.Error()
	}
	args := found.Flags().Args()
	if found.HasSubCommands() && len(args) > 0 {
		return "no such command of " + found.Name()
	}
	if complete {
		if err := found.ValidateArgs(args); err != nil {
			return err.Error()
		}
	}
	return ""
}

// The test of the manual's commands finds what it is for.
func TestRingletCalls(t *testing.T) {
	calls := ringletCalls(`ip a "$(ringlet alloc --for "shim of x")/32"; ringlet keys ls < f`)
	if len(calls) != 2 || len(calls[0]) != 3 || !slices.Equal(calls[1], []string{"keys", "ls"}) {
		t.Errorf("calls are %q", calls)
	}
	for _, bad := range []string{"nothing", "pool nothing", "status --nothing", "who"} {
		if refusal(strings.Fields(bad), true) == "" {
			t.Errorf("%q is not refused", bad)
		}
	}
}
