// Package logging makes the plugin's logger: log/slog in front of a sink that
// never makes the caller wait.
//
// It refuses to know what is logged.
//
// A managed plugin's stdout and stderr are pipes that dockerd reads. While
// dockerd is down nobody does, and a write blocks once the pipe is full; one
// line over 64 KiB ends the reader of engine 20.10 for good. Either would
// freeze whoever logs, and with it every request. So a line is formatted,
// capped and put into a bounded queue; when the queue is full the line is
// dropped and counted. One goroutine, in [Sink.Run], writes the queue out, and
// says in one line how many were lost as soon as writing works again.
//
// dockerd shows stdout at level info and stderr at level error, so lines of
// level Error and above go to Err and all others to Out. Their order is kept
// over both. The text format leaves the time to dockerd, which stamps each
// line; JSON carries its own. Both write levels in lower case, as LOG_LEVEL
// reads them.
//
// The logger and the sink are safe for concurrent use.
package logging

import (
	"io"
	"log/slog"
	"time"
)

// Format is how a line is written.
type Format string

// The formats that exist.
const (
	Text Format = "text" // level=info msg="pool made" pool=10.32.0.0/24
	JSON Format = "json" // {"time":"…","level":"info","msg":"pool made","pool":"10.32.0.0/24"}
)

// Defaults and bounds of [Config].
const (
	DefaultQueue     = 1024
	DefaultMaxLine   = 16 << 10
	DefaultFlushWait = time.Second

	// minMaxLine leaves room for the marker of a cut line and for a message.
	minMaxLine = 256
)

// Config says what is logged, how and where to. Its zero value is usable and
// writes nothing.
type Config struct {
	// Level is the lowest level that is logged, Info if nil. A *slog.LevelVar
	// makes it changeable while running.
	Level slog.Leveler

	// Format is Text or JSON; anything else counts as Text, the default.
	Format Format

	// Out receives the lines below level Error, Err the others; in a plugin
	// stdout and stderr. A line is one Write. Nil discards.
	Out, Err io.Writer

	// Queue is how many lines wait while nobody reads, at least 1. 0 means
	// DefaultQueue. Queue times MaxLine bounds the memory.
	Queue int

	// MaxLine is the longest line in bytes, with its newline; a longer one is
	// cut and marked. 0 means DefaultMaxLine, and less than 256 means 256.
	// Keep it below 64 KiB, where engine 20.10 stops reading.
	MaxLine int

	// FlushWait is how long Run goes on writing after its context has ended.
	// 0 means DefaultFlushWait.
	FlushWait time.Duration
}

func (c Config) withDefaults() Config {
	if c.Level == nil {
		c.Level = slog.LevelInfo
	}
	if c.Format != JSON {
		c.Format = Text
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Err == nil {
		c.Err = io.Discard
	}
	if c.Queue <= 0 {
		c.Queue = DefaultQueue
	}
	if c.MaxLine <= 0 {
		c.MaxLine = DefaultMaxLine
	}
	c.MaxLine = max(c.MaxLine, minMaxLine)
	if c.FlushWait <= 0 {
		c.FlushWait = DefaultFlushWait
	}
	return c
}

// New returns a logger and the sink that writes its lines. Lines wait in the
// queue until [Sink.Run] is called; nothing is written before.
func New(cfg Config) (*slog.Logger, *Sink) {
	cfg = cfg.withDefaults()
	s := &Sink{
		format:    cfg.Format,
		out:       cfg.Out,
		err:       cfg.Err,
		maxLine:   cfg.MaxLine,
		flushWait: cfg.FlushWait,
		queue:     make(chan line, cfg.Queue),
	}
	return slog.New(&handler{
		text: cfg.Format == Text,
		out:  format(cfg.Format, writerFunc(s.putOut), cfg.Level),
		err:  format(cfg.Format, writerFunc(s.putErr), cfg.Level),
	}), s
}
