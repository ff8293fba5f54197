package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want Line
	}{
		{`time="2026-01-02T03:04:05Z" level=info msg="API listen on /run/docker.sock"`, Line{Level: "info", Msg: "API listen on /run/docker.sock"}},
		{`time="x" level=info msg=bye plugin=805fe`, Line{Level: "info", Msg: "bye", Plugin: "805fe"}},
		{`time="x" level=error msg="level=warn msg=\"pool \\\"a\\\" lost\"" plugin=805fe`, Line{Level: "error", Msg: `level=warn msg="pool \"a\" lost"`, Plugin: "805fe"}},
		{`panic: runtime error: invalid memory address`, Line{Msg: "panic: runtime error: invalid memory address"}},
		{``, Line{}},
	} {
		c.want.Raw = c.raw
		if diff := cmp.Diff(c.want, parseLine(c.raw)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.raw, diff)
		}
	}
}

func TestLogCollectsLinesFromPieces(t *testing.T) {
	l := newLog()
	for _, piece := range []string{"level=info ", "msg=one\nlevel=info msg=two\nlev", "el=info msg=three"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	mark := l.Mark()
	l.Write([]byte("\n"))
	var got []string
	for _, line := range l.Lines() {
		got = append(got, line.Msg)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if since := l.Since(mark); len(since) != 1 || since[0].Msg != "three" {
		t.Errorf("Since: got %v, want three", since)
	}
}

func TestLogWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLog()
		l.Write([]byte("level=info msg=ready\n"))
		mark := l.Mark()
		go func() {
			time.Sleep(3 * time.Second)
			l.Write([]byte("level=info msg=noise\nlevel=warning msg=\"ready again\"\n"))
		}()
		line, err := l.Wait(t.Context(), mark, time.Minute, Contains("ready"))
		if err != nil || line.Level != "warning" {
			t.Errorf("got %v, %v, want the line after the mark", line, err)
		}
		if _, err := l.Wait(t.Context(), 0, time.Minute, Contains("never")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the limit", err)
		}
	})
}
