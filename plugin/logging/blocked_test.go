package logging_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/plugin/logging"
)

// readLines reads n lines.
func readLines(t *testing.T, r *bufio.Reader, n int) []string {
	t.Helper()
	var lines []string
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestBlockedReader has nobody read for a while: callers go on at once, the
// oldest lines survive, and the loss stands in the log where it happened.
func TestBlockedReader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, sink := logging.New(logging.Config{Out: w, Err: w, Queue: 4})
		stop := run(t, sink)

		log.Info("first")
		synctest.Wait() // the writer hangs in the pipe with the first line
		begun := time.Now()
		for i := range 10 { // 4 are queued, 6 are lost
			log.Error(strconv.Itoa(i))
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("logging waited %v", took)
		}
		if n := sink.Dropped(); n != 6 {
			t.Errorf("got %d dropped, want 6", n)
		}

		lines := bufio.NewReader(r)
		got := readLines(t, lines, 2)
		synctest.Wait()
		log.Info("later") // there is room again, and the loss is before it
		got = append(got, readLines(t, lines, 5)...)
		want := []string{
			"level=info msg=first\n",
			"level=error msg=0\n",
			"level=error msg=1\n",
			"level=error msg=2\n",
			"level=error msg=3\n",
			"level=warn msg=\"log lines dropped\" count=6\n",
			"level=info msg=later\n",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestLossIsReportedWithoutAnotherLine: after the burst nobody logs again.
func TestLossIsReportedWithoutAnotherLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, sink := logging.New(logging.Config{Out: w, Queue: 1})
		stop := run(t, sink)
		log.Info("written")
		synctest.Wait()
		for range 3 {
			log.Info("queued, and two dropped")
		}
		got := readLines(t, bufio.NewReader(r), 3)
		if want := "level=warn msg=\"log lines dropped\" count=2\n"; got[2] != want {
			t.Errorf("got %q, want %q", got[2], want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestFlush: what was logged before the end is written, also by a reader that
// is slow but alive.
func TestFlush(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, sink := logging.New(logging.Config{Out: w})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		for i := range 5 {
			log.Info(strconv.Itoa(i))
		}
		cancel()
		go func() { done <- sink.Run(ctx) }()
		lines := bufio.NewReader(r)
		for i := range 5 {
			time.Sleep(100 * time.Millisecond)
			if got, want := readLines(t, lines, 1)[0], fmt.Sprintf("level=info msg=%d\n", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestFlushIsBounded: a dead reader delays the end by the flush wait only, and
// nothing is written behind the back of a process that has said goodbye.
func TestFlushIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, sink := logging.New(logging.Config{Out: w, FlushWait: 3 * time.Second, Queue: 2})
		stop := run(t, sink)
		log.Info("stuck")
		synctest.Wait()
		for range 5 {
			log.Info("left")
		}
		begun := time.Now()
		if err := stop(); !errors.Is(err, logging.ErrNotFlushed) {
			t.Errorf("got %v, want ErrNotFlushed", err)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("Run ended after %v, want 3s", took)
		}

		lines := bufio.NewReader(r)
		if got := readLines(t, lines, 1)[0]; got != "level=info msg=stuck\n" {
			t.Errorf("got %q", got)
		}
		synctest.Wait() // the writer ends; another write would leave it in the pipe and the bubble in a deadlock
		log.Info("nobody writes this, and nothing breaks")
	})
}

// flaky fails, or writes half, as long as broken says so.
type flaky struct {
	lines  []string
	broken error // io.ErrShortWrite writes half
}

func (f *flaky) Write(p []byte) (int, error) {
	switch {
	case f.broken == nil:
		f.lines = append(f.lines, string(p))
		return len(p), nil
	case errors.Is(f.broken, io.ErrShortWrite):
		return len(p) / 2, nil
	default:
		return 0, f.broken
	}
}

func TestFailedWritesAreReportedOnce(t *testing.T) {
	for _, cause := range []error{errors.New("broken pipe"), io.ErrShortWrite} {
		t.Run(cause.Error(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var f flaky
				log, sink := logging.New(logging.Config{Out: &f, Format: logging.JSON, Level: slog.LevelWarn})
				stop := run(t, sink)
				now := time.Now().Format(time.RFC3339Nano)
				f.broken = cause
				for range 3 {
					log.Warn("lost")
					synctest.Wait()
				}
				f.broken = nil
				log.Warn("back")
				log.Warn("again")
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				want := []string{
					`{"time":"` + now + `","level":"warn","msg":"log lines dropped","count":3}` + "\n",
					`{"time":"` + now + `","level":"warn","msg":"back"}` + "\n",
					`{"time":"` + now + `","level":"warn","msg":"again"}` + "\n",
				}
				if d := cmp.Diff(want, f.lines); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				if n := sink.Dropped(); n != 3 {
					t.Errorf("got %d dropped, want 3", n)
				}
			})
		})
	}
}
