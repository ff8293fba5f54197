package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/plugin/logging"
)

func TestCutText(t *testing.T) {
	out, _ := logged(t, logging.Config{MaxLine: 256}, func(log *slog.Logger) {
		log.Info(strings.Repeat("ä", 1000))
	})
	const mark = " … (cut, 2015 bytes)\n"
	if !strings.HasPrefix(out, "level=info msg=ää") || !strings.HasSuffix(out, "ä"+mark) {
		t.Errorf("got %q, want the head of the line and %q", out, mark)
	}
	if n := len(out); n > 256 || n < 254 || !utf8.ValidString(out) {
		t.Errorf("got %d bytes, want 256 or one rune less, all of them UTF-8", n)
	}
}

func TestCutJSON(t *testing.T) {
	cfg := logging.Config{MaxLine: 512, Format: logging.JSON}
	out, errs := logged(t, cfg, func(log *slog.Logger) {
		log.Info(strings.Repeat(`"<`, 1000))
		log.Error(strings.Repeat("x", 1000))
	})
	for _, tt := range []struct{ line, level string }{{out, "warn"}, {errs, "error"}} {
		m := decode(t, tt.line)
		if m["level"] != tt.level || m["msg"] != "log line was too long" || m["bytes"].(float64) < 1000 {
			t.Errorf("got %v", m)
		}
		if head, _ := m["line"].(string); !strings.HasPrefix(head, `{"time":"`) {
			t.Errorf("got line %q, want the head of the line that was cut", head)
		}
		if n := len(tt.line); n > 512 || n < 450 {
			t.Errorf("got %d bytes, want nearly all of 512", n)
		}
	}
}

// TestLimits keeps the limits for any message, key and value: each Write is
// one line of valid UTF-8, not longer than allowed, and JSON stays JSON.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]logging.Format{logging.Text, logging.JSON}).Draw(t, "format")
		limit := rapid.IntRange(0, 2000).Draw(t, "limit")
		part := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(string(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "bytes")), rapid.IntRange(1, 60).Draw(t, "times"))
		})
		var f flaky
		log, sink := logging.New(logging.Config{Out: &f, Err: &f, Format: format, MaxLine: limit, FlushWait: time.Minute})
		n := rapid.IntRange(1, 3).Draw(t, "lines")
		for range n {
			level := slog.Level(rapid.IntRange(0, 12).Draw(t, "level"))
			log.Log(context.Background(), level, part.Draw(t, "msg"), slog.String(part.Draw(t, "key"), part.Draw(t, "value")))
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := sink.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(f.lines) != n {
			t.Fatalf("got %d writes, want %d", len(f.lines), n)
		}
		if limit == 0 {
			limit = logging.DefaultMaxLine
		}
		for _, line := range f.lines {
			if len(line) > max(limit, 256) {
				t.Errorf("line of %d bytes, limit is %d", len(line), limit)
			}
			if strings.Index(line, "\n") != len(line)-1 {
				t.Errorf("%q is not one line", line)
			}
			if !utf8.ValidString(line) {
				t.Errorf("%q is not valid UTF-8", line)
			}
			if format == logging.JSON && !json.Valid(bytes.TrimSpace([]byte(line))) {
				t.Errorf("%q is not JSON", line)
			}
		}
	})
}
