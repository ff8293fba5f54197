package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// noGoal is the limit of a row that only compares.
var noGoal = math.Inf(1)

// row is a goal and what was measured of it.
type row struct {
	goal   string // P1 to P13 and G1 to G23, as RESULTS.md lists them
	what   string
	limit  float64 // what got may be at most, or at least
	least  bool
	within bool // the limit is to lie between the quartiles, or above them: no difference can be seen
	got    spread
	unit   string // x: a ratio
	note   string // the figures behind it
}

// verdict says whether the goal is met.
func (r row) verdict() string {
	near, good := r.got.q1, r.got.median <= r.limit
	if r.least {
		near, good = r.got.q3, r.got.median >= r.limit
	}
	v := "**missed**"
	switch {
	case r.limit == noGoal:
		v = "compares"
	case good, r.within && near <= r.limit:
		v = "met"
	case !r.least && near <= r.limit, r.least && near >= r.limit:
		v = "missed within the noise"
	}
	if r.noisy() {
		v += ", noisy"
	}
	return v
}

// noisy reports whether the quartiles are too far apart to say much.
func (r row) noisy() bool {
	return r.got.q3-r.got.median > r.got.median/4 || r.got.median-r.got.q1 > r.got.median/4
}

func (r row) want() string {
	if r.limit == noGoal {
		return "-"
	}
	if r.least {
		return "≥ " + number(r.limit) + r.unit
	}
	if r.within {
		return "= " + number(r.limit) + r.unit + ", within the quartiles"
	}
	return "≤ " + number(r.limit) + r.unit
}

func (r row) measured() string {
	if r.got.q1 == r.got.q3 {
		return number(r.got.median) + r.unit
	}
	return fmt.Sprintf("%s%s [%s..%s]", number(r.got.median), r.unit, number(r.got.q1), number(r.got.q3))
}

// number writes three digits of what counts.
func number(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.01:
		return fmt.Sprintf("%.4f", f)
	case f < 10:
		return fmt.Sprintf("%.2f", f)
	case f < 100:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// duration writes nanoseconds in the unit that fits.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return number(ns) + " ns"
	case ns < 1e6:
		return number(ns/1e3) + " µs"
	case ns < 1e9:
		return number(ns/1e6) + " ms"
	}
	return number(ns/1e9) + " s"
}

// table collects rows and what had to be left out, and prints them.
type table struct {
	short   bool // one short round of each: nothing is judged
	rows    []row
	missing []string
	failed  []string
}

func (t *table) add(r row) {
	if r.unit == "" {
		r.unit = "x"
	}
	t.rows = append(t.rows, r)
}

// leaveOut notes that something could not be measured here.
func (t *table) leaveOut(format string, args ...any) {
	t.missing = append(t.missing, fmt.Sprintf(format, args...))
}

// print writes the table in Markdown.
func (t *table) print(w io.Writer, n noise, took time.Duration) {
	fmt.Fprintf(w, "%s\n\n", n.report(took))
	fmt.Fprintln(w, "| goal | what | wanted | measured | |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- |")
	for _, r := range t.rows {
		verdict := r.verdict()
		if t.short {
			verdict = "runs"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.goal, withNote(r.what, r.note), r.want(), r.measured(), verdict)
	}
	for _, m := range t.missing {
		fmt.Fprintf(w, "\nLeft out: %s.", m)
	}
	for _, m := range t.failed {
		fmt.Fprintf(w, "\nFailed: %s.", m)
	}
	fmt.Fprintln(w)
}

func withNote(what, note string) string {
	if note == "" {
		return what
	}
	return strings.TrimSuffix(what, ".") + ": " + note
}
