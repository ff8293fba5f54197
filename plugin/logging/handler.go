package logging

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"time"
)

// handler routes a record to one of two formatting handlers.
type handler struct {
	text     bool
	out, err slog.Handler
}

// Enabled implements [slog.Handler].
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.out.Enabled(ctx, level)
}

// Handle implements [slog.Handler]. It never fails and never waits: the
// writers below it queue or drop.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.text {
		r.Time = time.Time{} // which the formatting handler leaves out
	}
	if r.Level >= slog.LevelError {
		return h.err.Handle(ctx, r)
	}
	return h.out.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{text: h.text, out: h.out.WithAttrs(attrs), err: h.err.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{text: h.text, out: h.out.WithGroup(name), err: h.err.WithGroup(name)}
}

// format returns slog's own handler for f, writing each line in one Write.
func format(f Format, w io.Writer, level slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: replace}
	if f == JSON {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// replace writes levels as LOG_LEVEL reads them, and durations with their
// unit, which JSON would otherwise drop.
func replace(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	if len(groups) == 0 && a.Key == slog.LevelKey {
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String(a.Key, strings.ToLower(level.String()))
		}
	}
	return a
}

// writerFunc is a function as an [io.Writer].
type writerFunc func(p []byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
