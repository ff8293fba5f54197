// Package console reads the blocks of commands out of the pages of the manual, so that tests run what the manual shows.
//
// It refuses to know what a command does.
//
// A block of commands is fenced as ```console. The comment above it says what runs it:
//
//	<!-- run: NAME -->      the step NAME of internal/e2e, which takes the commands from the page
//	<!-- test: NAME -->     the test NAME, which has the same commands itself
//	<!-- example: WHY -->   nothing, and why not
//
// A line with a prompt is a command. The prompt is # for root, $ for any user, with the name of a host before it where it
// matters. Any other line is what the commands print. Two spaces and # begin a remark.
package console

import (
	"regexp"
	"strings"
)

// A Block is one block of commands.
type Block struct {
	Kind  string   // run, test or example; empty if no comment is above the block
	Name  string   // what the comment says
	Lines []Line   // the commands, in order
	Shown []string // the other lines: what the commands print
}

// A Line is one command.
type Line struct {
	Host    string // before the prompt; empty for any host
	Command string // without prompt and remark
}

var (
	block  = regexp.MustCompile("(?m)^ *(?:<!-- (run|test|example): (.*) -->\n *)?```console\n((?s:.*?))```")
	prompt = regexp.MustCompile(`^([a-z][a-z-]*)?[#$] +(.*)$`)
	remark = regexp.MustCompile(`\s{2,}# .*$`)
)

// Blocks returns the blocks of a page in order.
func Blocks(page string) []Block {
	var out []Block
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		b := Block{Kind: m[1], Name: m[2]}
		for text := range strings.Lines(m[3]) {
			text = strings.TrimSpace(text)
			if p := prompt.FindStringSubmatch(text); p != nil {
				b.Lines = append(b.Lines, Line{Host: p[1], Command: remark.ReplaceAllString(p[2], "")})
			} else if text != "" {
				b.Shown = append(b.Shown, text)
			}
		}
		out = append(out, b)
	}
	return out
}
