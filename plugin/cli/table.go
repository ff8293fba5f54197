package cli

import (
	"strings"
)

// column is a column of a table.
type column struct {
	title string
	right bool // numbers
	// drop says when the column is left out of a terminal that is too narrow:
	// the highest first, those with 0 never.
	drop int
	cut  bool // its texts may be cut
	// hidden leaves it out: no row has anything to say there.
	hidden bool
}

// Widths of a table, in columns of the terminal.
const (
	tableGap = 2
	minCut   = 6 // what is left of a text that is cut
)

// table prints rows with a title line. In a terminal it drops columns, and
// then cuts texts, until a line fits; in a pipe it prints everything.
func (v view) table(columns []column, rows [][]string) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = displayWidth(c.title)
	}
	cells := make([][]string, len(rows))
	for r, row := range rows {
		cells[r] = make([]string, len(row))
		for i, text := range row {
			if text == "" {
				text = "-"
			}
			cells[r][i] = safe(text)
			widths[i] = max(widths[i], displayWidth(cells[r][i]))
		}
	}
	shown := v.fit(columns, widths)

	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	v.printf("%s\n", v.paint(bold, line(columns, shown, widths, titles)))
	for _, row := range cells {
		v.printf("%s\n", line(columns, shown, widths, row))
	}
}

// fit returns the columns to show, and lowers the widths of those whose texts
// are to be cut.
func (v view) fit(columns []column, widths []int) []int {
	var shown []int
	total := -tableGap
	for i := range columns {
		if columns[i].hidden {
			continue
		}
		shown = append(shown, i)
		total += widths[i] + tableGap
	}
	if v.columns == 0 {
		return shown
	}
	for total > v.columns {
		first := 0 // of shown: the one to drop next
		for n, i := range shown {
			if columns[i].drop > columns[shown[first]].drop {
				first = n
			}
		}
		if columns[shown[first]].drop == 0 {
			break
		}
		total -= widths[shown[first]] + tableGap
		shown = append(shown[:first:first], shown[first+1:]...)
	}
	for _, i := range shown {
		if columns[i].cut && total > v.columns {
			less := max(min(total-v.columns, widths[i]-minCut), 0)
			widths[i] -= less
			total -= less
		}
	}
	return shown
}

// line lays out one row.
func line(columns []column, shown, widths []int, cells []string) string {
	var b strings.Builder
	for n, i := range shown {
		text := cut(cells[i], widths[i])
		pad := strings.Repeat(" ", widths[i]-displayWidth(text))
		if columns[i].right {
			text = pad + text
		} else {
			text += pad
		}
		if n > 0 {
			b.WriteString(strings.Repeat(" ", tableGap))
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// facts prints names with values under one another, without those that have
// no value.
func (v view) facts(pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, displayWidth(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.printf("%-*s  %s\n", width, pairs[i], safe(pairs[i+1]))
		}
	}
}
