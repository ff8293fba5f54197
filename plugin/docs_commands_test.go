package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/console"
	"github.com/ringlet/ringlet/plugin/cli"
)

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
