package e2e

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Line is one line of an engine's log.
type Line struct {
	Level  string // "debug", "info", "warning", "error", "fatal"; dockerd gives a plugin's stdout info, its stderr error
	Msg    string // unquoted; for a plugin's line that is what the plugin wrote
	Plugin string // id of the plugin that wrote it, or empty
	Raw    string
}

// A Log collects what an engine writes, over all its restarts. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	lines   []Line
	rest    []byte        // of a line not yet ended
	changed chan struct{} // closed and replaced at each new line
}

func newLog() *Log { return &Log{changed: make(chan struct{})} }

// Write takes output of dockerd in pieces of any size. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.lines = append(l.lines, parseLine(string(line)))
		l.rest = slices.Clone(rest)
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// Lines returns all lines so far.
func (l *Log) Lines() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Mark returns a position: [Log.Since] and [Log.Wait] look only at what was written after it.
func (l *Log) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// Since returns the lines after mark.
func (l *Log) Since(mark int) []Line { return l.Lines()[mark:] }

// Wait returns the first line after mark for which match holds, waiting up to limit for it.
func (l *Log) Wait(ctx context.Context, mark int, limit time.Duration, match func(Line) bool) (Line, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		l.mu.Lock()
		lines, changed := l.lines[mark:], l.changed
		l.mu.Unlock()
		for _, line := range lines {
			if match(line) {
				return line, nil
			}
			mark++
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Line{}, fmt.Errorf("no such line in the engine's log: %w; its last lines:\n%s", ctx.Err(), l.tail(15))
		}
	}
}

// tail returns the last n lines as text.
func (l *Log) tail(n int) string {
	lines := l.Lines()
	var b strings.Builder
	for _, line := range lines[max(0, len(lines)-n):] {
		b.WriteString(line.Raw + "\n")
	}
	return b.String()
}

// Contains returns a match for [Log.Wait]: lines whose message contains text.
func Contains(text string) func(Line) bool {
	return func(l Line) bool { return strings.Contains(l.Msg, text) }
}

// field finds the fields of a line in logrus' text format: key=word or key="quoted".
var field = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S*)`)

// parseLine reads a line of dockerd. What is not in its format (a panic's trace) is a message without level.
func parseLine(raw string) Line {
	line := Line{Raw: raw}
	for _, m := range field.FindAllStringSubmatch(raw, -1) {
		value := m[2]
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		switch m[1] {
		case "level":
			line.Level = value
		case "msg":
			line.Msg = value
		case "plugin":
			line.Plugin = value
		}
	}
	if line.Level == "" {
		line.Msg = raw
	}
	return line
}
