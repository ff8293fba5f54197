package cli

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// displayWidth returns how many columns of a terminal a text takes that [safe] has let
// through: those of East Asia take two for most letters (Unicode, annex 11), and
// what goes onto the letter before takes none.
func displayWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < unicode.MaxASCII {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}

// cut shortens a text to at most so many columns, of which the last says that it
// was cut. most is 1 at least.
func cut(s string, most int) string {
	if displayWidth(s) <= most {
		return s
	}
	var b strings.Builder
	left := most - 1
	for _, r := range s {
		if left -= runeWidth(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}
