package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/plugin/logging"
)

// run runs the sink until the returned stop is called, which returns what Run
// returned.
func run(t *testing.T, s *logging.Sink) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-result
	})
}

// logged returns what f logs to Out and to Err.
func logged(t *testing.T, cfg logging.Config, f func(*slog.Logger)) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	cfg.Out, cfg.Err, cfg.FlushWait = &o, &e, time.Minute
	log, sink := logging.New(cfg)
	stop := run(t, sink)
	f(log)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return o.String(), e.String()
}

func TestText(t *testing.T) {
	out, errs := logged(t, logging.Config{Level: slog.LevelDebug}, func(log *slog.Logger) {
		log = log.With(slog.String("node", "host a"))
		log.Debug("request served", slog.Duration("took", 1500*time.Microsecond))
		log.Info("pool made", slog.String("pool", "10.32.0.0/24"))
		log.Warn("peer\nlost", slog.Group("peer", slog.String("name", "b"), slog.Time("time", time.Unix(0, 0).UTC())))
		log.Error("disk full", slog.Any("err", errors.New("no space left")))
	})
	wantOut := `level=debug msg="request served" node="host a" took=1.5ms
level=info msg="pool made" node="host a" pool=10.32.0.0/24
level=warn msg="peer\nlost" node="host a" peer.name=b peer.time=1970-01-01T00:00:00.000Z
`
	wantErr := `level=error msg="disk full" node="host a" err="no space left"
`
	if d := cmp.Diff(wantOut, out); d != "" {
		t.Errorf("out (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantErr, errs); d != "" {
		t.Errorf("err (-want +got):\n%s", d)
	}
}

func TestJSON(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now := time.Now().Format(time.RFC3339Nano)
		out, errs := logged(t, logging.Config{Format: logging.JSON}, func(log *slog.Logger) {
			log = log.WithGroup("driver").With(slog.String("call", "RequestPool"))
			log.Debug("not shown")
			log.Info("request served", slog.Duration("took", time.Second))
			log.Error("request failed", slog.Any("err", errors.New("no space left")))
		})
		want := map[string]any{"time": now, "level": "info", "msg": "request served", "driver": map[string]any{"call": "RequestPool", "took": "1s"}}
		if d := cmp.Diff(want, decode(t, out)); d != "" {
			t.Errorf("out (-want +got):\n%s", d)
		}
		want = map[string]any{"time": now, "level": "error", "msg": "request failed", "driver": map[string]any{"call": "RequestPool", "err": "no space left"}}
		if d := cmp.Diff(want, decode(t, errs)); d != "" {
			t.Errorf("err (-want +got):\n%s", d)
		}
	})
}

func decode(t *testing.T, line string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return m
}

func TestLevelCanChange(t *testing.T) {
	var level slog.LevelVar
	level.Set(slog.LevelError)
	out, errs := logged(t, logging.Config{Level: &level}, func(log *slog.Logger) {
		log.Info("not shown")
		log.Error("one")
		level.Set(slog.LevelInfo)
		log.Info("two")
		log.Debug("not shown")
	})
	if out != "level=info msg=two\n" || errs != "level=error msg=one\n" {
		t.Errorf("got out %q, err %q", out, errs)
	}
}

// TestOrder logs to one writer under both names: the order over both is that
// of the calls.
func TestOrder(t *testing.T) {
	var buf bytes.Buffer
	log, sink := logging.New(logging.Config{Out: &buf, Err: &buf, FlushWait: time.Minute})
	var want strings.Builder
	for i := range 100 {
		level, name := slog.LevelInfo, "info"
		if i%3 == 0 {
			level, name = slog.LevelError, "error"
		}
		log.Log(t.Context(), level, strconv.Itoa(i))
		want.WriteString("level=" + name + " msg=" + strconv.Itoa(i) + "\n")
	}
	if buf.Len() > 0 {
		t.Errorf("%q was written before Run", buf.String())
	}
	if err := run(t, sink)(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), buf.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestZeroConfigDiscards(t *testing.T) {
	log, sink := logging.New(logging.Config{FlushWait: time.Minute})
	stop := run(t, sink)
	log.Error("nobody reads this")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := sink.Dropped(); n != 0 {
		t.Errorf("got %d dropped, want 0", n)
	}
}

func TestRunTwice(t *testing.T) {
	_, sink := logging.New(logging.Config{FlushWait: time.Minute})
	if err := run(t, sink)(); err != nil {
		t.Fatal(err)
	}
	if err := sink.Run(t.Context()); err == nil {
		t.Error("the second Run did not fail")
	}
}

// TestConcurrent accounts for every line of many callers.
func TestConcurrent(t *testing.T) {
	const callers, each = 8, 200
	var buf bytes.Buffer
	log, sink := logging.New(logging.Config{Out: &buf, Err: &buf, Queue: 16, FlushWait: time.Minute})
	stop := run(t, sink)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				log.Log(t.Context(), slog.Level(4*(i%4)), "line", slog.Int("caller", c), slog.Int("i", i))
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	var written, reported int
	last := map[string]int{}
	for line := range strings.Lines(buf.String()) {
		if _, count, ok := strings.Cut(line, `msg="log lines dropped" count=`); ok {
			n, err := strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				t.Fatal(err)
			}
			reported += n
			continue
		}
		written++
		fields := strings.Fields(line) // level= msg= caller= i=
		i, err := strconv.Atoi(strings.TrimPrefix(fields[3], "i="))
		if err != nil {
			t.Fatal(err)
		}
		if before, seen := last[fields[2]]; seen && before >= i {
			t.Errorf("%s: line %d was written after line %d", fields[2], i, before)
		}
		last[fields[2]] = i
	}
	if written+reported != callers*each || sink.Dropped() != uint64(reported) {
		t.Errorf("%d lines written, %d reported dropped, %d counted, of %d logged", written, reported, sink.Dropped(), callers*each)
	}
}

// BenchmarkLog asks what a line costs its caller, while the reader keeps up
// and while nobody reads. Accepted: 2 µs and 4 allocations.
func BenchmarkLog(b *testing.B) {
	for _, stalled := range []bool{false, true} {
		b.Run("stalled="+strconv.FormatBool(stalled), func(b *testing.B) {
			log, sink := logging.New(logging.Config{Out: io.Discard, Queue: 64})
			if !stalled {
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error, 1)
				go func() { done <- sink.Run(ctx) }()
				defer func() { cancel(); <-done }()
			}
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(b.Context(), slog.LevelInfo, "address granted", slog.String("pool", "10.32.0.0/24"), slog.Int("count", 1))
			}
		})
	}
}
