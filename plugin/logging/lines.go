package logging

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

// Lines returns what a library may write its lines to, as one with a [log.Logger]: each becomes a line of
// logger, of the level that is returned for it.
func Lines(logger *slog.Logger, level func(text string) slog.Level) io.Writer {
	return &lines{logger, level}
}

type lines struct {
	logger *slog.Logger
	level  func(text string) slog.Level
}

// Write implements [io.Writer] for one line.
func (l *lines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	l.logger.LogAttrs(context.Background(), l.level(text), "library message", slog.String("text", text))
	return len(b), nil
}
