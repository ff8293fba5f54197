package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ringlet/ringlet/plugin/cli"
)

// Words that hide the actor of a sentence, or that a reader of English as a second language has to look up. Name the host,
// the engine, the container or the operator in their place.
var vague = regexp.MustCompile(`(?i)\b(who(m|se)?ever|anew|alike|likewise|meanwhile|of which|by which|what becomes of|is told|are told|somebody|for ever)\b|\bno more([,.;:]|$)`)

// longest is how many words a sentence of the manual may have.
const longest = 35

// Everything that users and operators read names its actors, in sentences that end in time.
func TestWordsOfTheManual(t *testing.T) {
	n := 0
	for page, text := range manual(t) {
		if page == "../ARCHITECTURE.md" {
			continue // for developers
		}
		for _, s := range sentences(text) {
			n++
			if word := vague.FindString(s); word != "" {
				t.Errorf("%s: %q hides who does what in: %s", page, word, s)
			}
			if words := len(strings.Fields(s)); words > longest {
				t.Errorf("%s: a sentence of %d words, at most %d: %s", page, words, longest, s)
			}
		}
	}
	if n < 800 {
		t.Errorf("only %d sentences were read", n)
	}
}

// The help of the commands is written like the manual. A short text is one phrase that fits a list of commands.
func TestWordsOfTheHelp(t *testing.T) {
	phrase := regexp.MustCompile(`^[A-Z][^.]{5,59}$`)
	row := regexp.MustCompile(`(?m)^ {2,}`)
	n := 0
	root := cli.New(cli.Config{Serve: func(context.Context, cli.ServeOptions) error { return nil }})
	for _, group := range append(root.Commands(), root) {
		for _, c := range append(group.Commands(), group) {
			if !phrase.MatchString(c.Short) {
				t.Errorf("%s: the short text is no phrase of at most 60 characters: %s", c.CommandPath(), c.Short)
			}
			texts := []string{c.Short, row.ReplaceAllString(c.Long, "\n")}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
			for _, s := range sentences(strings.Join(texts, "\n\n")) {
				n++
				if word := vague.FindString(s); word != "" {
					t.Errorf("%s: %q hides who does what in: %s", c.CommandPath(), word, s)
				}
				if words := len(strings.Fields(s)); words > longest {
					t.Errorf("%s: a sentence of %d words, at most %d: %s", c.CommandPath(), words, longest, s)
				}
			}
		}
	}
	if n < 250 {
		t.Errorf("only %d sentences were read", n)
	}
}

// The last line of make test, as the README shows it, has the lanes that make test runs.
func TestLanesOfTheReadme(t *testing.T) {
	rules, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	lanes := regexp.MustCompile(`(?m)^test: .*\n\t@scripts/test\.sh (.*)$`).FindSubmatch(rules)
	if lanes == nil || !strings.Contains(manual(t)["../README.md"], "\npassed: "+string(lanes[1])+";") {
		t.Errorf("the README shows other lanes than %q", lanes)
	}
}

// The test of words finds what it is for.
func TestSentences(t *testing.T) {
	text := "# Head\n\nOne two,\nthree `four. five`. Six!\n```console\n$ code. code.\n```\n- item one\n  goes on\n- item [two](a.md)\n\n" +
		"| a b. C d | e |\n| --- | --- |\n| `X` | y |\n<!-- no. text -->\n1. step\n\n   <!-- run: x -->\n   ```console\n   # y\n   ```\n"
	want := []string{"Head", "One two, three code.", "Six!", "item one goes on", "item two", "a b.", "C d", "e", "code", "y", "step"}
	if got := sentences(text); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("sentences are\n%q, want\n%q", got, want)
	}
	for _, s := range []string{"Whoever asks", "it joins anew", "of which none is"} {
		if !vague.MatchString(s) {
			t.Errorf("%q is not found", s)
		}
	}
}

// sentences returns the prose of a page: code counts as one word, a cell of a table as a sentence at least.
func sentences(text string) []string {
	for _, cut := range []struct{ pattern, by string }{
		{`(?s)<!--.*?-->`, ""},
		{"(?s)```.*?```", "\n\n"},
		{`<[^>\n]*\n?[^>\n]*>`, ""},
		{`!?\[([^\]]*)\]\([^)]*\)`, "$1"},
	} {
		text = regexp.MustCompile(cut.pattern).ReplaceAllString(text, cut.by)
	}
	var out, paragraph []string
	end := func() {
		out = append(out, bySentence(strings.Join(paragraph, " "))...)
		paragraph = nil
	}
	item := regexp.MustCompile(`^([-*]|\d+\.) +`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			end()
		case strings.HasPrefix(line, "|"):
			end()
			if strings.HasPrefix(line, "| ---") {
				continue
			}
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				out = append(out, bySentence(cell)...)
			}
		case strings.HasPrefix(line, "#"):
			end()
			out = append(out, bySentence(strings.TrimLeft(line, "# "))...)
		default:
			if item.MatchString(line) {
				end()
			}
			paragraph = append(paragraph, item.ReplaceAllString(line, ""))
		}
	}
	end()
	return out
}

// bySentence cuts a text at the ends of its sentences.
func bySentence(text string) []string {
	text = regexp.MustCompile("`[^`]*`").ReplaceAllString(text, "code")
	text = strings.ReplaceAll(text, "*", "")
	text = regexp.MustCompile(`([.!?])\s+`).ReplaceAllString(text, "$1\n")
	var out []string
	for s := range strings.SplitSeq(text, "\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
