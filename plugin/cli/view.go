package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// defaultColumns is the width of drawings and sentences where there is no
// terminal to fill.
const defaultColumns = 80

// view prints for people.
type view struct {
	out     io.Writer
	columns int  // of the terminal; 0: no terminal, and nothing is cut
	colour  bool // the terminal shows it, and the user wants it
	now     time.Time
}

func newView(out io.Writer, cfg Config) view {
	v := view{out: out, columns: cfg.columns, colour: cfg.colour, now: cfg.Now()}
	if f, ok := cfg.Out.(*os.File); ok && cfg.columns == 0 && term.IsTerminal(int(f.Fd())) {
		v.colour = true
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			v.columns = columns
		}
	}
	if cfg.Getenv("NO_COLOR") != "" || cfg.Getenv("TERM") == "dumb" {
		v.colour = false
	}
	return v
}

// width returns how wide drawings and sentences may be.
func (v view) width() int {
	if v.columns == 0 {
		return defaultColumns
	}
	return max(v.columns, 20)
}

func (v view) printf(format string, args ...any) { fmt.Fprintf(v.out, format, args...) }

// style is an ANSI colour, by the numbers of SGR.
type style string

// The styles. None stands alone: a word or a letter says the same.
const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	grey   style = "90"
)

func (v view) paint(s style, text string) string {
	if !v.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// maxIndent is how far the lines below a first one are indented at most.
const maxIndent = 10

// wrap prints the words with line breaks where the width ends. The first line
// begins with head, which is painted, and the others with as many spaces if
// that leaves them room.
func (v view) wrap(s style, head, text string) {
	column := displayWidth(head)
	indent := column
	if indent > maxIndent {
		indent = 2
	}
	v.printf("%s", v.paint(s, head))
	for i, word := range strings.Fields(text) {
		n := displayWidth(word)
		switch {
		case i == 0:
		case column+1+n > v.width():
			v.printf("\n%s", strings.Repeat(" ", indent))
			column = indent
		default:
			v.printf(" ")
			column++
		}
		v.printf("%s", word)
		column += n
	}
	v.printf("\n")
}

// safe escapes what could steer a terminal or break a line. What others
// chose, such as names, passes through here before it is printed.
func safe(s string) string {
	steers := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, steers) {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// ago tells how long ago t was, in one unit.
func (v view) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	switch d := v.now.Sub(t); {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
}

// plural counts things.
func plural[N ~int | ~uint64](n N, one, many string) string { return sentence.Plural(n, one, many) }

// amount prints a number of addresses for people.
func amount(n uint64) string { return addr.Count(n).String() }
