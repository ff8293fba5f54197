package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// capped returns a copy of a formatted line, cut to maxLine bytes if it is
// longer, and always with exactly one newline, at its end. level is that of
// the JSON line that takes the place of a cut one.
func (s *Sink) capped(p []byte, level slog.Level) []byte {
	if len(p) <= s.maxLine {
		return bytes.Clone(p)
	}
	p = bytes.TrimSuffix(p, []byte("\n"))
	if s.format == JSON {
		return cutJSON(p, s.maxLine, level)
	}
	return cutText(p, s.maxLine)
}

// cutText keeps the head of the line and puts a marker with the full length
// behind it. An open quote stays open: the marker is for people.
func cutText(p []byte, limit int) []byte {
	mark := fmt.Sprintf(" … (cut, %d bytes)\n", len(p))
	head := wholeRunes(p, limit-len(mark))
	return append(bytes.Clone(head), mark...)
}

// cutLine is what a JSON line becomes when it is too long: the cut text is no
// JSON any more, so it stands in a member of its own.
type cutLine struct {
	Level string `json:"level"`
	Msg   string `json:"msg"`
	Bytes int    `json:"bytes"`
	Line  string `json:"line"`
}

// cutJSON wraps as much of the line's head as fits. Escaping makes the head
// longer, at worst six bytes for one (and a line of JSON is full of quotes),
// so it shrinks by what was too much until it fits.
func cutJSON(p []byte, limit int, level slog.Level) []byte {
	cut := cutLine{Level: strings.ToLower(level.String()), Msg: "log line was too long", Bytes: len(p)}
	keep := limit
	for {
		head := wholeRunes(p, keep)
		cut.Line = string(head)
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(cut); err != nil {
			// A struct of strings and a number always encodes.
			return []byte("{\"msg\":\"log line was too long\"}\n")
		}
		over := out.Len() - limit
		if over <= 0 {
			return out.Bytes()
		}
		keep = max(0, len(head)-max(1, over/6))
	}
}

// wholeRunes returns the longest head of p that has at most n bytes and does
// not end inside a rune.
func wholeRunes(p []byte, n int) []byte {
	if n >= len(p) {
		return p
	}
	for n > 0 && !utf8.RuneStart(p[n]) {
		n--
	}
	return p[:n]
}
