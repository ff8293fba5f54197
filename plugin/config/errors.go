package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Error is what is wrong with one setting. Its text is one line for the
// operator: the setting, its value unless that is a secret, why it is refused,
// what is accepted and an example.
type Error struct {
	Name     string // the setting, or the name that is none
	Value    string // as given, empty if it is a secret or not set
	Accepted string // the setting's range, empty for a name that is none
	Example  string // a value that is accepted
	Err      error  // why; joined errors if several entries of a list are bad
}

// maxShown is how much of a value is repeated in an error, in bytes: enough
// to find it again, and no line that fills a log.
const maxShown = 80

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Name)
	if e.Value != "" {
		b.WriteString("=" + shown(e.Value))
	}
	b.WriteString(": ")
	for i, why := range Problems(e.Err) {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(why.Error())
	}
	if e.Accepted != "" {
		b.WriteString("; accepted: " + e.Accepted)
	}
	if e.Example != "" {
		fmt.Fprintf(&b, "; example: %s=%s", e.Name, e.Example)
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Problems returns the errors that [Load] joined, one for each setting that is
// wrong by itself and one for each that is wrong beside another, both in the
// order of [Settings]; names that are no settings come first.
func Problems(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // the joined errors, not one inside them
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// shown quotes a value, or its head. Quoting keeps a value with newlines, or
// bytes that a terminal would obey, on one harmless line.
func shown(value string) string {
	if len(value) <= maxShown {
		return strconv.Quote(value)
	}
	head := strings.ToValidUTF8(value[:maxShown], "")
	return fmt.Sprintf("%q… (%d bytes)", head, len(value))
}

// unknownName is the error for a name that is no setting. It does not show
// the value: a misspelled RINGLET_KEY carries a key.
func unknownName(name string, known []string) error {
	shownName := name
	if len(name) > maxShown || strconv.Quote(name) != `"`+name+`"` {
		shownName = shown(name)
	}
	if near, ok := nearest(name, known); ok {
		return &Error{Name: shownName, Err: fmt.Errorf("no such setting, did you mean %s?", near)}
	}
	return &Error{Name: shownName, Err: errors.New("no such setting; there are " + strings.Join(known, ", "))}
}

// nearest returns the known name with the fewest edits to name. With more
// edits than half of what is behind the prefix it would be a guess, and there
// is none. The prefix does not count, so that RINGLET_LOG_LEVEL is LOG_LEVEL.
func nearest(name string, known []string) (string, bool) {
	bare := strings.TrimPrefix(name, prefix)
	if len(bare) > maxShown {
		return "", false
	}
	best, found := len(bare)/2+1, ""
	for _, k := range known {
		if d := distance(bare, strings.TrimPrefix(k, prefix)); d < best {
			best, found = d, k
		}
	}
	return found, found != ""
}

// distance counts the bytes to insert, delete, replace or swap with their
// neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	// The last three rows of the usual table; row[j] is the distance of a[:i]
	// to b[:j].
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
